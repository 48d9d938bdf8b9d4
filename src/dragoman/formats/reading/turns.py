"""The messages of one conversation, built turn by turn."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import build_messages, placeholder_id, result_call_id, tool_call
from dragoman.formats.reading.fields import Fields, is_empty, iter_fields, list_inside, source_losses
from dragoman.formats.reading.tool_calls import OpenCalls, ToolIdReader, pair_repeated


class Turns:
    """Collects messages. Calls and results are paired by the document's own ids, or by the tool's name without them."""

    def __init__(self, session_id: str | None = None) -> None:
        self._messages: list[Message] = []
        self._paths: list[str] = []
        self._ids = ToolIdReader()
        self._session_id = session_id
        self._waiting = OpenCalls()

    @property
    def messages(self) -> list[Message]:
        """All messages. Instructions between a call and its result follow the result, which belongs to the call. A
        result whose call has one already belongs to the next open call.
        """
        return put_results_first(pair_repeated(self._messages, self._paths))

    def start(self, role: Role, *, has_results: bool = False) -> None:
        """Start a message of the document, before its calls and results are built."""
        if role is Role.USER and not has_results:
            self._waiting = OpenCalls()
        self._ids.start_turn(role, has_results=has_results or role in (Role.TOOL, Role.SYSTEM, Role.DEVELOPER))

    def call(self, native_id: str | None, name: str, arguments: Any) -> ToolUseBlock:
        """Return the block of a call, with a canonical id. The call waits for its result from here on."""
        key = native_id or placeholder_id(name)
        self._waiting.add(key, name)
        return tool_call(self._ids, key, name, arguments)

    def result(
        self, native_id: str | None, name: str | None, content: Sequence[ContentBlock], *, is_error: bool = False
    ) -> ToolResultBlock:
        """Return the block of a result, with the canonical id of its call; without an id, of the first open call of the
        tool."""
        key = native_id or self._waiting.first(name)
        if key is not None:
            self._waiting.answer(key)
        call_id = result_call_id(self._ids, key, name)
        return ToolResultBlock(tool_use_id=call_id, content=tuple(content), is_error=is_error)

    def add(
        self,
        role: Role,
        blocks: Sequence[ContentBlock],
        path: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
        session_id: str | None = None,
    ) -> None:
        """Add a message of the document at ``path``. One without blocks is a loss. Raises FormatError."""
        if not blocks:
            source_losses().add_info(path, "the message has no content: left out", LossKind.EMPTY_MESSAGE)
            return
        try:
            session = session_id or self._session_id
            built = build_messages(role, blocks, metadata=metadata, created_at=created_at, session_id=session)
        except ValidationError as error:
            raise FormatError(error.errors(include_input=False, include_url=False)[0]["msg"], path=path) from None
        self._messages += built
        self._paths += [path] * len(built)


def read_messages(document: Any, format_name: str, read: Callable[[Fields, Turns], object]) -> list[Message]:
    """Return the messages of a list, of an object with one as ``messages``, or of a single message, as ``read`` adds
    each of them to the turns. Raises FormatError.
    """
    data, at = list_inside(parse_json_or_lines(document, format_name=format_name), "messages", format_name)
    turns = Turns()
    for message in iter_fields(data, format_name, at):
        read(message, turns)
    return turns.messages


def put_results_first(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with instructions that stand between a call and its result behind the result."""
    found: list[Message] = []
    held: list[Message] = []
    waiting: set[str] = set()
    for message in messages:
        if message.role in (Role.SYSTEM, Role.DEVELOPER) and waiting:
            held.append(message)
            continue
        if message.role is not Role.TOOL:
            found += held
            held.clear()
            waiting = {call.id for call in message.tool_uses}
        else:
            waiting -= {result.tool_use_id for result in message.tool_results}
        found.append(message)
    return [*found, *held]


def stop_after(blocks: Sequence[ContentBlock], stop: StopReason | None) -> StopReason | None:
    """Return the stop reason of a reply: one with calls stopped for them, whatever word its server uses."""
    if stop is StopReason.END_TURN and any(isinstance(block, ToolUseBlock) for block in blocks):
        return StopReason.TOOL_USE
    return stop


def read_time(value: Any) -> datetime | None:
    """Return a time from ISO 8601, or from seconds or milliseconds since 1970; None for anything else."""
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
            return time if time.tzinfo else time.replace(tzinfo=UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MILLISECONDS else value
            return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def take_time(fields: Fields, *names: str) -> datetime | None:
    """Take a time; one that cannot be read is a loss."""
    value = fields.take(*names)
    time = read_time(value)
    if time is None and not is_empty(value):
        source_losses().add(f"{fields.path}.{names[0]}", f"{names[0]} is not a time: left out")
    return time


_MILLISECONDS = 100_000_000_000
"""Larger numbers are milliseconds: as seconds they would be after the year 5000."""
