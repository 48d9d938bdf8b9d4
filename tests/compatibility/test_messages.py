"""Messages of schema version 1 load forever, without loss."""

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.blocks import ThinkingBlock, UnknownBlock
from dragoman.canonical.message import (
    SCHEMA_VERSION,
    Message,
    MessageStatus,
    Role,
    StopReason,
    read_message,
    write_message,
)

FOLDER = Path(__file__).parent / "messages" / "v1"
DIGESTS = {
    "least": "6f3e84c874059a13",
    "question": "29b7bbacadc4db3a",
    "tool_call": "e6ac4873d0f91b62",
    "tool_answer": "8f76bc45d79c7226",
    "cut_off": "58e0dd10ba0f790f",
    "every_block": "1d034c4a06624619",
    "from_the_future": "238cbb96c9c62c28",
    "newer_words": "4892d18bcb0aa99c",
}
"""The first 16 hex digits of each file's SHA-256: a fixture never changes."""

every_fixture = pytest.mark.parametrize("name", DIGESTS)


def read(name: str) -> Message:
    return read_message((FOLDER / f"{name}.json").read_bytes())


@every_fixture
def test_fixture_is_unchanged(name: str) -> None:
    """A failure here has found an edit, not a bug: add a file instead."""
    assert hashlib.sha256((FOLDER / f"{name}.json").read_bytes()).hexdigest().startswith(DIGESTS[name])


def test_every_file_is_a_known_fixture() -> None:
    """Unread files prove nothing."""
    assert {path.stem for path in FOLDER.iterdir()} == set(DIGESTS)


@every_fixture
def test_fixture_round_trips(name: str) -> None:
    """At the current version, with every field that it had; only defaults may be added."""
    message = read(name)
    assert message.schema_version == SCHEMA_VERSION
    assert is_contained(json.loads(write_message(message)), json.loads((FOLDER / f"{name}.json").read_bytes()))
    assert read_message(write_message(message)) == message


def is_contained(written: Any, fixture: Any) -> bool:
    if isinstance(fixture, dict):
        return all(key in written and is_contained(written[key], value) for key, value in fixture.items())
    if isinstance(fixture, list):
        return len(written) == len(fixture) and all(map(is_contained, written, fixture))
    return bool(written == fixture)


def test_old_messages_keep_their_meaning() -> None:
    """Roles, ids, money, time and thinking are read as they were."""
    assert read("least").role is Role.USER
    assert read("question").text == "Was ist das? \u2028 😀"
    assert read("question").metadata.critical == (1,)
    message = read("tool_call")
    assert message.content[0] == ThinkingBlock(text="I should read the file.", signature="EqQBCkYIBxgCKkBz")
    assert message.tool_uses[0].input == {"path": "a.txt", "lines": [1, 2.5, None, True]}
    assert message.stop_reason is StopReason.TOOL_USE
    assert message.usage is not None
    assert (message.usage.total_tokens, message.usage.cost_usd) == (1070, Decimal("0.000654"))
    assert message.created_at.isoformat() == "2026-11-21T08:00:00.123456+00:00"
    assert read("tool_answer").tool_results[0].tool_use_id == message.tool_uses[0].id
    assert read("cut_off").metadata.status is MessageStatus.ERROR
    assert read("cut_off").tool_uses[0].raw_input == '{"path": "notes/ra'
    assert len({block.type for block in read("every_block").content}) == 14
    newer = read("newer_words")
    assert (newer.role, newer.channel, newer.metadata.status) == ("reviewer", "aside", "superseded")
    assert (newer.role.is_known, newer.metadata.status.is_known) == (False, False)
    assert [type(block) for block in read("from_the_future").content].count(UnknownBlock) == 1
