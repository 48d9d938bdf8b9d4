"""Messages: defaults, equality, and fields that change with the content."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import (
    SCHEMA_VERSION,
    Channel,
    Message,
    MessageMetadata,
    MessageStatus,
    Role,
    StopReason,
)
from dragoman.canonical.usage import Usage
from tests.unit.canonical.samples import MESSAGE, METADATA

FIXED: dict[str, Any] = {"id": "01M7YJFK7P2ZFT4X2CGGZPP6M5", "created_at": datetime(2026, 11, 21, tzinfo=UTC)}


def test_a_message_has_these_defaults() -> None:
    """A message has these defaults: a new id, the current time in UTC, complete, of no session."""
    message = Message(role=Role.USER)
    assert len(message.id) == 26
    assert (message.session_id, message.content, message.channel) == ("", (), None)
    assert message.metadata == MessageMetadata()
    assert message.metadata.status is MessageStatus.COMPLETE
    assert message.metadata.critical is False
    assert message.schema_version == SCHEMA_VERSION
    assert message.created_at.tzinfo is UTC
    assert Message(role=Role.USER).id > message.id


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_messages_are_made_by_role(role: str) -> None:
    make = getattr(Message, role)
    assert make("Hi", **FIXED) == make([TextBlock(text="Hi")], **FIXED)
    assert make("Hi").role == role
    assert make("Hi", channel=Channel.FINAL).channel is Channel.FINAL


def test_a_tool_message_names_its_call() -> None:
    """A tool message names its call in its block, and in its metadata with those of the caller. Source:
    docs/reference/canonical.md#invariants.
    """
    message = Message.tool("tu_1", "ok", is_error=True)
    assert message.content == (ToolResultBlock(tool_use_id="tu_1", content=(TextBlock(text="ok"),), is_error=True),)
    assert message.metadata.parent_tool_use_id == "tu_1"
    assert Message.tool("tu_1", "", metadata=MessageMetadata(user_id="u")).metadata.parent_tool_use_id == "tu_1"
    own = MessageMetadata(parent_tool_use_id="tu_0")
    assert Message.tool("tu_1", "", metadata=own).metadata is own


def test_properties_give_the_parts_of_a_message() -> None:
    """Joined texts, calls and results in order, usage and stop reason."""
    call, result = ToolUseBlock(id="tu_1", name="f"), ToolResultBlock(tool_use_id="tu_1")
    message = Message.assistant(
        [ThinkingBlock(text="Hm."), TextBlock(text="a"), call, TextBlock(text="b"), result],
        metadata=MessageMetadata(usage=Usage(input_tokens=1), stop_reason=StopReason.TOOL_USE),
    )
    assert (message.text, message.thinking) == ("ab", "Hm.")
    assert (message.tool_uses, message.tool_results) == ((call,), (result,))
    assert message.usage == Usage(input_tokens=1)
    assert message.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "fields", [{"rol": "user"}, {"metadata": {"modle": "a"}}, {"content": [{"type": "text", "t": ""}]}]
)
def test_a_typo_is_refused(fields: dict[str, Any]) -> None:
    """A typo is refused in the message, its metadata and its blocks."""
    with pytest.raises(ValidationError):
        Message.model_validate({"role": "user", **fields})


@pytest.mark.parametrize("role", ["bot", "", None, "USER"])
def test_roles_are_closed(role: Any) -> None:
    """An unknown role is refused."""
    with pytest.raises(ValidationError):
        Message(role=role)


def test_messages_are_immutable() -> None:
    message = Message.user("Hi")
    for target, field in ((message, "content"), (message.metadata, "status")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(target, field, None)


@pytest.mark.parametrize("field", MESSAGE)
def test_every_field_counts_for_equality(field: str) -> None:
    """A message that differs in one field is unequal, and so is its hash."""
    message = Message.model_validate({**FIXED, **MESSAGE})
    assert Message.model_validate(MESSAGE) == message
    other: dict[str, Any] = {
        "id": "01M7YJFK7P2ZFT4X2CGGZPP6M6", "session_id": "sess_2", "role": "system", "content": (), "channel": None,
        "metadata": {}, "created_at": FIXED["created_at"],
    }  # fmt: skip
    changed = Message.model_validate({**MESSAGE, field: other[field]})
    assert changed != message
    assert hash(changed) != hash(message)


@pytest.mark.parametrize("field", METADATA)
def test_all_metadata_except_provider_raw_count_for_equality(field: str) -> None:
    """provider_raw belongs to the adapter that wrote it."""
    message = Message.model_validate(MESSAGE)
    fewer = {name: value for name, value in METADATA.items() if name != field}
    changed = Message.model_validate({**MESSAGE, "metadata": fewer})
    assert (changed == message) is (hash(changed) == hash(message)) is (field == "provider_raw")


def test_a_message_equals_nothing_else() -> None:
    """Comparison with other objects is False, not an error."""
    assert Message.user("Hi") != "Hi"
    assert MessageMetadata() != {}


class TestModelCopy:
    noted = Message.assistant("Hi", metadata=MessageMetadata(model="a:b", provider_raw={"by": "a"}))

    def test_provider_raw_goes_with_the_content(self) -> None:
        """What an adapter recorded about the old content does not describe the new one."""
        changed = self.noted.model_copy(update={"content": (TextBlock(text="Bye"),)})
        assert changed.metadata.provider_raw is None
        assert changed.metadata.model == "a:b"
        assert self.noted.metadata.provider_raw == {"by": "a"}

    def test_stale_provider_raw_does_not_return_with_other_metadata(self) -> None:
        """New metadata that were copied from the old ones hold the stale data: it goes too."""
        metadata = self.noted.metadata.model_copy(update={"user_id": "u"})
        changed = self.noted.model_copy(update={"content": (), "metadata": metadata})
        assert changed.metadata == MessageMetadata(model="a:b", user_id="u")
        assert changed.metadata.provider_raw is None

    @pytest.mark.parametrize(
        ("update", "raw"),
        [
            ({"session_id": "sess_2"}, {"by": "a"}),
            ({"content": (TextBlock(text="Hi"),)}, {"by": "a"}),
            ({"content": (), "metadata": MessageMetadata(provider_raw={"by": "b"})}, {"by": "b"}),
        ],
    )
    def test_provider_raw_stays_if_it_fits(self, update: dict[str, Any], raw: dict[str, Any]) -> None:
        """With the same content, or if the caller supplies it."""
        assert self.noted.model_copy(update=update).metadata.provider_raw == raw

    def test_model_copy_validates_messages(self) -> None:
        """A string is content, as at construction; unsafe values are refused."""
        assert self.noted.model_copy(update={"content": "Bye"}).content == (TextBlock(text="Bye"),)
        with pytest.raises(ValidationError):
            self.noted.model_copy(update={"content": "\ud800"})


class TestTime:
    def test_times_are_stored_in_utc(self) -> None:
        """To the microsecond; other zones are converted."""
        given = datetime(2026, 11, 21, 9, 0, 0, 123456, tzinfo=timezone(timedelta(hours=1)))
        assert Message.user("", created_at=given).created_at == datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("moment", "what"),
        [
            (datetime(2026, 11, 21), "needs a time zone"),  # noqa: DTZ001 - that is the fault
            (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), "in the years 1 to 9999"),
            ("yesterday", "valid datetime"),
        ],
    )
    def test_an_invalid_time_is_refused(self, moment: Any, what: str) -> None:
        """Also one without a zone, which is ambiguous."""
        with pytest.raises(ValidationError, match=what):
            Message.user("", created_at=moment)


@pytest.mark.parametrize("version", [0, 2, "one"])
def test_a_message_in_memory_has_the_current_version(version: Any) -> None:
    """Older ones are upgraded when they are read; newer ones cannot be read."""
    with pytest.raises(ValidationError, match="schema_version"):
        Message(role=Role.USER, schema_version=version)


@pytest.mark.parametrize(
    ("content", "pattern"),
    [
        (5, "content must be a text or a list of blocks, not a int"),
        (None, "content must be a text or a list of blocks, not a NoneType"),
        (b"Hi", "content must be a text or a list of blocks, not a bytes"),
        (TextBlock(text="Hi"), "content must be a text or a list of blocks, not a TextBlock"),
        ({"role": "user", "content": "Hi"}, "content must be a text or a list of blocks, not a dict"),
        (["Hi"], r"a text is TextBlock\(text=...\)"),
        ([{"text": "Hi"}], "a dict with a type"),
    ],
)
def test_invalid_content_is_named(content: Any, pattern: str) -> None:
    """However the message is made, and without quoting it."""
    for make in (Message.user, lambda given: Message(role=Role.USER, content=given), lambda x: Message.tool("tu_1", x)):
        with pytest.raises(ValidationError, match=pattern) as raised:
            make(content)
        assert "Hi" not in str(raised.value)


def test_content_may_be_any_iterable_of_blocks() -> None:
    """A list, a tuple or a generator."""
    block = TextBlock(text="Hi")
    for given in ([block], (block,), (each for each in [block]), {1: block}.values()):
        assert Message.user(given, **FIXED) == Message.user("Hi", **FIXED)
