"""Messages of schema version 1 load for ever, and nothing in them is lost."""

import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.blocks import ThinkingBlock, UnknownBlock
from dragoman.canonical.evolve import read_message, write_message
from dragoman.canonical.message import SCHEMA_VERSION, Message, MessageStatus, Role, StopReason

FOLDER = Path(__file__).parent / "messages" / "v1"
DIGESTS = {
    "least": "6f3e84c874059a13",
    "question": "29b7bbacadc4db3a",
    "tool_call": "e6ac4873d0f91b62",
    "tool_answer": "8f76bc45d79c7226",
    "cut_off": "58e0dd10ba0f790f",
    "every_block": "1d034c4a06624619",
    "from_the_future": "238cbb96c9c62c28",
}
"""The first 16 hex digits of each file's SHA-256: an exhibit is never touched."""

every_exhibit = pytest.mark.parametrize("name", DIGESTS)


def read(name: str) -> Message:
    return read_message((FOLDER / f"{name}.json").read_bytes())


@every_exhibit
def test_an_exhibit_is_untouched(name: str) -> None:
    """A test that fails here has found an edit, not a bug: add a file instead."""
    assert hashlib.sha256((FOLDER / f"{name}.json").read_bytes()).hexdigest().startswith(DIGESTS[name])


def test_every_file_is_an_exhibit() -> None:
    """Files that nobody reads prove nothing."""
    assert {path.stem for path in FOLDER.iterdir()} == set(DIGESTS)


@every_exhibit
def test_an_exhibit_is_read_and_all_of_it_written_again(name: str) -> None:
    """At the current version, with every field that it had; only defaults may come in addition."""
    message = read(name)
    assert message.schema_version == SCHEMA_VERSION
    assert holds(json.loads(write_message(message)), json.loads((FOLDER / f"{name}.json").read_bytes()))
    assert read_message(write_message(message)) == message


def holds(written: Any, exhibit: Any) -> bool:
    if isinstance(exhibit, dict):
        return all(key in written and holds(written[key], value) for key, value in exhibit.items())
    if isinstance(exhibit, list):
        return len(written) == len(exhibit) and all(map(holds, written, exhibit))
    return bool(written == exhibit)


def test_what_was_said_means_what_it_meant() -> None:
    """Roles, ids, money, time and thinking are read as what they were."""
    assert read("least").role is Role.USER
    assert read("question").text == "Was ist das? \u2028 😀"
    assert read("question").metadata.critical == (1,)
    said = read("tool_call")
    assert said.content[0] == ThinkingBlock(text="I should read the file.", signature="EqQBCkYIBxgCKkBz")
    assert said.tool_uses[0].input == {"path": "a.txt", "lines": [1, 2.5, None, True]}
    assert said.stop_reason is StopReason.TOOL_USE
    assert said.usage is not None
    assert (said.usage.total_tokens, said.usage.cost_usd) == (1070, Decimal("0.000654"))
    assert said.created_at.isoformat() == "2026-11-21T08:00:00.123456+00:00"
    assert read("tool_answer").tool_results[0].tool_use_id == said.tool_uses[0].id
    assert read("cut_off").metadata.status is MessageStatus.ERROR
    assert read("cut_off").tool_uses[0].raw_input == '{"path": "notes/ra'
    assert len({block.type for block in read("every_block").content}) == 14
    assert [type(block) for block in read("from_the_future").content].count(UnknownBlock) == 1
