"""Checks of a stream's events, whatever fault its bytes have."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import DragomanError, NetworkError
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import Message, MessageStatus

Events = Sequence[StreamEvent]


def partial_stream_faults(events: Events, whole: Events, *, early: bool, network: bool) -> Iterator[str]:
    """Yield the faults of a truncated stream: its events must be a prefix of the complete stream's, without success.

    ``early``: its terminal event had not arrived. ``network``: only the connection failed.
    """
    yield from protocol_faults(events)
    *before, last = events
    if before != list(whole[: len(before)]):
        yield "the events are not the beginning of those of the whole stream"
    if isinstance(last, MessageComplete):
        if early:
            yield "success before the terminal event"
        elif last != whole[-1] and not _differs_in_usage_only(last, whole[-1]):
            yield "a different message than that of the whole stream"
    elif isinstance(last, ErrorEvent):
        if network and not isinstance(last.error, NetworkError):
            yield f"{type(last.error).__name__} is not a NetworkError: {last.error}"
        yield from _cut_faults(last.partial, before, whole[-1])


def _cut_faults(partial: Message | None, before: Events, complete: StreamEvent) -> Iterator[str]:
    """Yield the faults of the partial message of a cut stream: it is the beginning of the whole one."""
    said = any(isinstance(event, (TextDelta, ThinkingDelta)) and event.text for event in before)
    if partial is None and said:
        yield "the error has no partial message, although the stream had begun to say something"
    if partial is not None and isinstance(complete, MessageComplete):
        for kind in (TextBlock, ThinkingBlock):
            if not _text(complete.message.content, kind).startswith(_text(partial.content, kind)):
                yield f"the partial message is not the beginning of the {kind.__name__}s"


def _differs_in_usage_only(last: MessageComplete, expected: StreamEvent) -> bool:
    """Return whether a message equals the expected one except for its usage, which is unknown.

    If the stop reason ends a stream, the counts may be missing.
    """
    if not isinstance(expected, MessageComplete) or last.message.usage is not None:
        return False
    same_end = last.message.stop_reason == expected.message.stop_reason
    return same_end and last.message.content == expected.message.content


def protocol_faults(events: Events) -> Iterator[str]:
    """Yield the faults of any stream: it needs one last event, typed errors, ordered events and no partial call."""
    if not events:
        yield "no events at all"
        return
    *before, last = events
    if any(isinstance(event, (MessageComplete, ErrorEvent)) for event in before):
        yield "events after the last event"
    if isinstance(last, ErrorEvent):
        if not isinstance(last.error, DragomanError):
            yield f"{type(last.error).__name__} is not a DragomanError"
        if last.partial is not None:
            yield from _partial_faults(last.partial, before)
    elif not isinstance(last, MessageComplete):
        yield f"the last event is {last.type}"
    yield from _event_order_faults(before)


def _partial_faults(partial: Message, before: Events) -> Iterator[str]:
    ended = {event.tool_use_id: event.final_input for event in before if isinstance(event, ToolUseEnd)}
    if partial.metadata.status not in (MessageStatus.ERROR, MessageStatus.CANCELLED):
        yield f"the partial message has the status {partial.metadata.status}"
    for call in partial.tool_uses:
        if call.id not in ended and (call.input or call.raw_input is None):
            yield f"an unfinished call could be run: {call.input}, raw {call.raw_input!r}"
        if call.id in ended and (call.input != ended[call.id] or call.raw_input is not None):
            yield "a finished call lost its input"


def _event_order_faults(before: Events) -> Iterator[str]:
    """Check the order that consumers may rely on (``docs/reference/streams.md``, "Events in order")."""
    started: set[str] = set()
    ended: set[str] = set()
    pieces = [
        (event.type, event.partial_json if isinstance(event, ToolUseInputDelta) else event.text)
        for event in before
        if isinstance(event, (TextDelta, ThinkingDelta, ToolUseInputDelta))
    ]
    yield from (f"a {kind} with {piece!r:.40} for a text" for kind, piece in pieces if not isinstance(piece, str))
    for position, event in enumerate(before):
        match event:
            case MessageStart() if position:
                yield "a message starts twice"
            case ToolUseStart():
                if event.tool_use_id in started:
                    yield "a call starts twice"
                started.add(event.tool_use_id)
            case ToolUseInputDelta():
                if event.tool_use_id not in started or event.tool_use_id in ended:
                    yield "input for a call that is not open"
            case ToolUseEnd():
                if event.tool_use_id not in started or event.tool_use_id in ended:
                    yield "the end of a call that is not open"
                ended.add(event.tool_use_id)
            case _:
                pass
    if before and not isinstance(before[0], MessageStart):
        yield f"the first event is {before[0].type}"


ReplyContent = tuple[str, str, tuple[tuple[str, Any], ...]]
"""The text, the thinking, and the name and input of each call. An invalid input is None."""


def message_content(message: Message) -> ReplyContent:
    calls = tuple((call.name, None if call.raw_input is not None else call.input) for call in message.tool_uses)
    return _text(message.content, TextBlock), _text(message.content, ThinkingBlock), calls


def events_content(events: Iterable[StreamEvent], *, by_id: bool = True) -> ReplyContent:
    """Join the deltas. ``by_id``: a call that starts twice with one id is one call."""
    text: list[str] = []
    thinking: list[str] = []
    calls: list[tuple[str, str, list[str]]] = []
    for event in events:
        match event:
            case TextDelta():
                text.append(event.text)
            case ThinkingDelta():
                thinking.append(event.text)
            case ToolUseStart() if not by_id or all(event.tool_use_id != known for known, _, _ in calls):
                calls.append((event.tool_use_id, event.tool_name, []))
            case ToolUseInputDelta():
                for known, _, pieces in reversed(calls):
                    if known == event.tool_use_id:
                        pieces.append(event.partial_json)
                        break
            case _:
                pass
    return "".join(text), "".join(thinking), tuple((name, _parse_input("".join(pieces))) for _, name, pieces in calls)


def call_input_faults(events: Iterable[StreamEvent]) -> Iterator[str]:
    """Yield the faults of the final inputs of an unchanged stream, compared with their fragments."""
    fragments: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ToolUseInputDelta):
            fragments.setdefault(event.tool_use_id, []).append(event.partial_json)
        elif isinstance(event, ToolUseEnd) and event.tool_use_id in fragments:
            read = _parse_input("".join(fragments[event.tool_use_id]))
            if read != event.final_input:
                yield f"a call's input {event.final_input} differs from its fragments: {read}"


def matches_expected(result: ReplyContent, expected: ReplyContent) -> bool:
    """Return whether a result is as expected, except that calls may have become invalid."""
    if result[:2] != expected[:2] or len(result[2]) != len(expected[2]):
        return False
    pairs = zip(result[2], expected[2], strict=True)
    return all(
        name == expected_name and value in (None, expected_value)
        for (name, value), (expected_name, expected_value) in pairs
    )


def _parse_input(text: str) -> Any:
    parsed, malformed = wirejson.parse_arguments(text)
    return parsed if malformed is None else None


def _text(content: Iterable[ContentBlock], kind: type[TextBlock] | type[ThinkingBlock]) -> str:
    return "".join(block.text for block in content if isinstance(block, kind))
