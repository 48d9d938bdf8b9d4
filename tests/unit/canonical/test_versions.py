"""Messages of other versions: unknown parts are kept, newer formats are refused."""

import json
import logging
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ToolResultBlock, UnknownBlock
from dragoman.canonical.message import SCHEMA_VERSION, Message, Role, read_message, write_message
from dragoman.canonical.versions import UPGRADES, upgrade
from tests.unit.canonical.samples import MESSAGE, SOURCE

FUTURE: dict[str, Any] = {
    **MESSAGE,
    "mood": {"kind": None, "of": [1, None]},
    "content": [
        {"type": "text", "text": "Hi", "citations": [{"kind": "web", "rank": 1}], "weight": 0.5},
        {"type": "image", "source": {**SOURCE, "checksum": "abc"}},
        {"type": "hologram", "shape": {"text": None}, "name": None},
        {"type": "tool_result", "tool_use_id": "tu_1", "content": [{"type": "smell", "of": "coffee"}], "took": 3},
    ],
    "metadata": {
        "usage": {"input_tokens": 1, "quantum_tokens": 2},
        "routing": {"mode": "rule", "chosen_model": "a:b", "reason": "r", "committee": ["x"]},
        "weather": "fine",
    },
}


def test_unknown_parts_are_written_again() -> None:
    """Fields at every level and kinds of blocks, nulls included."""
    written = json.loads(write_message(read_message(FUTURE)))
    assert contains(written, FUTURE)
    assert read_message(written) == read_message(FUTURE)


def contains(written: Any, read: Any) -> bool:
    """Whether all that was read is written; what is written in addition are defaults."""
    if isinstance(read, dict):
        return all(name in written and contains(written[name], value) for name, value in read.items())
    if isinstance(read, list):
        return len(read) == len(written) and all(map(contains, written, read))
    return bool(written == read)


def test_each_unknown_block_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning per block, in results too."""
    with caplog.at_level(logging.WARNING, "dragoman.canonical"):
        message = read_message(FUTURE)
    assert isinstance(message.content[2], UnknownBlock)
    assert [record.getMessage() for record in caplog.records] == [
        f"message {message.id} holds a block of the unknown kind {kind!r}: kept as it is"
        for kind in ("hologram", "smell")
    ]


def test_unknown_fields_count_for_equality() -> None:
    """Two messages that a newer version distinguishes are not equal."""
    assert read_message({**FUTURE, "mood": 1}) != read_message({**FUTURE, "mood": 2})
    assert hash(read_message(FUTURE)) == hash(read_message(FUTURE))


@pytest.mark.parametrize(
    "form", [json.dumps(MESSAGE), json.dumps(MESSAGE).encode(), MESSAGE], ids=["str", "bytes", "dict"]
)
def test_a_message_is_read_from_any_form_of_its_json(form: Any) -> None:
    assert read_message(form) == Message.model_validate(MESSAGE)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("[]", "a message must be a JSON object, not a list"),
        ("null", "not a NoneType"), (None, "not a NoneType"), (Message.user("Hi"), "not a Message"),
        ("{", "EOF while parsing"),
        (b"\xff", "utf-8|expected"),
        ('{"role": "user", "x": NaN}', "expected value"),
        ('{"role": "user", "x": 1e999}', r"\$\.x is inf"),
        ({"role": "user", "x": float("nan")}, r"\$\.x is nan"),
        ('{"role": "user", "x": ' + "[" * 300 + "]" * 300 + "}", "recursion limit"),
        ({"role": "user", "metadata": {"x": "\ud800"}}, r"\$\.metadata\.x has a lone surrogate"),
        ('{"role": "user", "schema_version": 2}', "schema version 2 is newer than 1: upgrade dragoman"),
        ('{"role": "user", "schema_version": 0}', "no upgrade from schema version 0"),
        ('{"role": "user", "schema_version": "1"}', "schema_version must be an integer, not a str"),
        ('{"role": "user", "schema_version": true}', "schema_version must be an integer, not a bool"),
    ],
)  # fmt: skip
def test_unreadable_messages_raise_one_error_class(data: Any, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_message(data)


NEWER_WORDS: dict[str, Any] = {
    **MESSAGE,
    "role": "reviewer",
    "channel": "aside",
    "content": [{"type": "image", "source": {**SOURCE, "kind": "bucket"}}],
    "metadata": {
        "status": "superseded",
        "stop_reason": "budget_reached",
        "routing": {"mode": "auction", "chosen_model": "a:b", "reason": "r"},
        "usage": {"cost_status": "estimated", "pricing_mode": "flex"},
    },
}


def test_unknown_words_are_kept() -> None:
    """They are of the field's own type, are not a member of it, and equal their text."""
    message = read_message(NEWER_WORDS)
    metadata = message.metadata
    assert (message.role, metadata.status, metadata.stop_reason) == ("reviewer", "superseded", "budget_reached")
    assert isinstance(message.role, Role)
    assert not message.role.is_known
    assert Role.USER.is_known
    assert message.role not in list(Role)
    assert {message.role: 1}["reviewer"] == 1
    assert (message.role.value, message.role.name, f"{message.role}") == ("reviewer",) * 3
    assert contains(json.loads(write_message(message)), NEWER_WORDS)


def test_unknown_words_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Unknown words are reported once: one warning for each message, with every word."""
    with caplog.at_level(logging.WARNING, "dragoman.canonical"):
        message = read_message(NEWER_WORDS)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"message {message.id} has the unknown role 'reviewer', the unknown kind of source 'bucket', the unknown"
        " channel 'aside', the unknown routing mode 'auction', the unknown cost status 'estimated', the unknown pricing"
        " mode 'flex', the unknown message status 'superseded', the unknown stop reason 'budget_reached': kept"
    )


def test_programs_can_pass_unknown_words_on_but_not_make_them() -> None:
    """A typo is an error; a word that was read fits its own field."""
    read = read_message(NEWER_WORDS)
    source = next(block.source for block in read.content if isinstance(block, ImageBlock))
    assert Message(role=read.role).role == "reviewer"
    assert source.model_copy(update={"data": "new"}).kind == "bucket"
    for wrong in ({"role": "reviewer"}, {"role": read.channel}, {"role": "user", "channel": read.role}):
        with pytest.raises(ValidationError, match="Input should be"):
            Message.model_validate(wrong)
    with pytest.raises(ValidationError, match="Input should be 'base64', 'url', 'text', 'file_ref' or 'file_id'"):
        MediaSource.model_validate({"kind": "bucket", "data": ""})
    with pytest.raises(ValueError, match="reviewer"):
        Role("reviewer")


def test_the_schema_of_a_message_names_the_known_words() -> None:
    definitions = Message.model_json_schema()["$defs"]
    assert definitions["Role"]["enum"] == list(Role)
    assert definitions["MediaSource"]["properties"]["kind"]["enum"] == ["base64", "url", "text", "file_ref", "file_id"]


@pytest.mark.parametrize(
    "data",
    [
        "{}", '{"role": ""}', '{"role": 1}', json.dumps({"role": "user", "channel": "x" * 101}),
        '{"role": "user", "content": [{"type": "text"}]}',
    ],
)  # fmt: skip
def test_an_invalid_message_names_the_field(data: str) -> None:
    """Known fields must be valid."""
    with pytest.raises(ValidationError):
        read_message(data)


def test_a_message_without_a_version_is_of_the_first() -> None:
    """Hand-made files of the first version have none."""
    assert read_message('{"role": "user"}').schema_version == SCHEMA_VERSION


def test_an_older_message_is_upgraded_step_by_step() -> None:
    """Each step receives the previous version; the last one gives the current version."""
    old = {"role": "user", "text": "Hi", "schema_version": -1}
    steps = {
        -1: lambda raw: {**raw, "content": raw["text"]},
        0: lambda raw: {name: value for name, value in raw.items() if name != "text"},
    }
    message = read_message(old, upgrades=steps)
    assert message.content == (TextBlock(text="Hi"),)
    assert message.schema_version == SCHEMA_VERSION
    assert old["schema_version"] == -1, "the stored row is not touched"


def test_upgrades_end_at_the_requested_version() -> None:
    """A library of version 3 reads a row of version 1 through both steps."""
    steps = {1: lambda raw: {**raw, "a": 1}, 2: lambda raw: {**raw, "b": raw["a"] + 1}}
    assert upgrade({"schema_version": 1}, steps, current=3) == {"schema_version": 3, "a": 1, "b": 2}


def test_every_older_version_has_an_upgrade_step() -> None:
    """A new version needs its step."""
    assert sorted(UPGRADES) == list(range(1, SCHEMA_VERSION))


def test_unset_fields_are_not_written() -> None:
    """Nulls inside free JSON stay."""
    message = Message.tool("tu_1", [ToolResultBlock(tool_use_id="tu_1")])
    written = json.loads(write_message(message))
    assert "channel" not in written
    assert set(written["metadata"]) == {"parent_tool_use_id", "status", "critical"}
    noted = read_message({**MESSAGE, "metadata": {"provider_raw": {"a": None}}})
    assert json.loads(write_message(noted))["metadata"]["provider_raw"] == {"a": None}
