"""Filters a streamed reply. Text is released only when no plugin's window can still change it.

A plugin that checks replies declares how many characters it must see together (`Plugin.window`). If all of them do,
text and thinking are released up to that many characters before the end of what has arrived, as the plugins leave them;
a tool call is released when it is complete. If one plugin declares no window, nothing is released before the reply is
complete. The history and message_complete hold the result of checking the whole reply.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dragoman.adapter.contract import Adapter
from dragoman.adapter.replies.message_events import call_events, message_events
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock
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
    UsageUpdate,
)
from dragoman.canonical.message import Message, Role
from dragoman.effects import Perform, Work, carry_out
from dragoman.policy.conversation.hooks import PolicyHooks

Events = Sequence[StreamEvent]


@dataclass(slots=True)
class _Piece:
    """A block of text or thinking while it streams."""

    kind: type[TextDelta] | type[ThinkingDelta]
    index: int
    check_at: int
    """Number of buffered characters at which the next check runs."""
    buffer: str = ""
    released: str = ""
    signature: str | None = None
    ended: bool = False


@dataclass(slots=True)
class StreamFilter:
    """Filters the events of one streamed reply before the caller receives them."""

    policy_hooks: PolicyHooks
    adapter: Adapter
    session_id: str
    _window: int | None = 0
    _message_id: str = ""
    _buffer: list[StreamEvent] = field(default_factory=list)
    _pieces: dict[int, _Piece] = field(default_factory=dict)
    _calls: dict[str, list[StreamEvent]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._window = self.policy_hooks.pipeline.window

    def __call__(self, event: StreamEvent, /) -> Events | Perform:
        """Return the events to release, or the first effect that `apply` needs."""
        events = self.try_fast(event)
        if events is not None:
            return events
        steps = carry_out(self.apply(event))
        try:
            return next(steps)
        except StopIteration as end:
            released: Events = end.value
            return released

    def try_fast(self, event: StreamEvent) -> Events | None:
        """Return the events to release if no plugin has to run yet, else None: see `apply`."""
        match event:
            case MessageComplete() | ErrorEvent():
                return None
            case MessageStart():
                self._message_id = event.message_id
                return (event,)
            case _ if self._window is None:
                self._buffer.append(event)
                return ()
            case _ if self._window == 0 or isinstance(event, UsageUpdate):
                return (event,)
            case TextDelta() | ThinkingDelta() if (piece := self._current_piece(event)) is not None:
                piece.buffer += event.text
                piece.signature = getattr(event, "signature", None) or piece.signature
                return () if len(piece.buffer) < piece.check_at else None
            case ToolUseInputDelta():
                self._calls.setdefault(event.tool_use_id, []).append(event)
                return ()
            case _:
                return None

    def apply(self, event: StreamEvent) -> Work[Events]:
        """Return the events to release if `try_fast` returned None. Raises PolicyDeniedError, which ends the stream."""
        match event:
            case MessageComplete():
                return (yield from self._finish(event.message))
            case ErrorEvent():
                remains = yield from self.policy_hooks.check_partial(self.adapter, event.partial)
                if remains is None and event.partial is not None:
                    remains = event.partial.model_copy(update={"content": ()})
                return (replace(event, partial=remains),)
        return (yield from self._filter_event(event))

    def _filter_event(self, event: StreamEvent) -> Work[Events]:
        released: list[StreamEvent] = []
        index = getattr(event, "content_block_index", None)
        for piece in list(self._pieces.values()):
            if piece.index != index and not piece.ended:
                checked = yield from self._run_policy(piece, piece.buffer)
                piece.buffer, piece.ended = "", True
                released += self._emit(piece, checked)
        match event:
            case TextDelta() | ThinkingDelta():
                if index not in self._pieces:
                    self._pieces[event.content_block_index] = _Piece(
                        type(event), event.content_block_index, 2 * (self._window or 0)
                    )
                    released_now = self.try_fast(event)
                    if released_now is not None:
                        return (*released, *released_now)
                piece = self._pieces[event.content_block_index]
                if not piece.ended:
                    released += yield from self._release_prefix(piece)
            case ToolUseStart():
                self._calls.setdefault(event.tool_use_id, []).append(event)
            case ToolUseEnd():
                released += yield from self._filter_call(event)
        return released

    def _current_piece(self, event: TextDelta | ThinkingDelta) -> _Piece | None:
        """Return the piece that the event continues, if no other piece has to be finished first."""
        piece = self._pieces.get(event.content_block_index)
        if piece is None or type(event) is not piece.kind:
            return None
        if piece.ended or all(other is piece or other.ended for other in self._pieces.values()):
            return piece
        return None

    def _release_prefix(self, piece: _Piece) -> Work[Events]:
        """Release what no later text can change: all but the last window, split at a point that changes nothing."""
        window = self._window or 0
        checked = yield from self._run_policy(piece, piece.buffer)
        # After the last white space at least a window before the end, or a window before the end.
        last = len(piece.buffer) - window
        cut = next((place for place in range(last, 0, -1) if piece.buffer[place - 1].isspace()), last)
        first = piece.buffer[:cut]
        if checked != piece.buffer:
            checked_first = yield from self._run_policy(piece, first)
            checked_rest = yield from self._run_policy(piece, piece.buffer[cut:])
            if checked_first + checked_rest != checked:  # a change spans the split: wait for more text
                piece.check_at = len(piece.buffer) + window
                return ()
            first = checked_first
        piece.buffer = piece.buffer[cut:]
        piece.check_at = len(piece.buffer) + window
        return self._emit(piece, first)

    def _run_policy(self, piece: _Piece, text: str) -> Work[str]:
        if not text:
            return ""
        kind = TextBlock if piece.kind is TextDelta else ThinkingBlock
        checked = yield from self.policy_hooks.check_piece(self.adapter, self._message((kind(text=text),)))
        return "".join(block.text for block in checked.content if isinstance(block, kind))

    def _emit(self, piece: _Piece, text: str) -> Events:
        if not text:
            return ()
        piece.released += text
        return (piece.kind(self._message_id, piece.index, text),)

    def _filter_call(self, event: ToolUseEnd) -> Work[Events]:
        buffered = self._calls.pop(event.tool_use_id, [])
        start = next((each for each in buffered if isinstance(each, ToolUseStart)), None)
        if start is None:
            return ()
        call = ToolUseBlock(id=event.tool_use_id, name=start.tool_name, input=event.final_input)
        checked = yield from self.policy_hooks.check_piece(self.adapter, self._message((call,)))
        if checked.content == (call,):
            return (*buffered, event)
        return tuple(each for use in checked.tool_uses for each in call_events(self._message_id, start, use))

    def _finish(self, message: Message) -> Work[Events]:
        final = yield from self.policy_hooks.check_reply(self.adapter, message)
        done = MessageComplete(final)
        unchanged = final.content == message.content
        if self._window is None:
            usage_updates = [event for event in self._buffer if isinstance(event, UsageUpdate)]
            return (*(self._buffer if unchanged else [*message_events(final), *usage_updates]), done)
        released: list[StreamEvent] = []
        for piece in self._pieces.values():
            kind = TextBlock if piece.kind is TextDelta else ThinkingBlock
            if not piece.ended:
                checked = piece.buffer if unchanged else (yield from self._run_policy(piece, piece.buffer))
                whole = [block.text for block in final.content if isinstance(block, kind)]
                # If the whole changed differently from its pieces, the rest is only in message_complete.
                released += self._emit(piece, checked) if unchanged or piece.released + checked in whole else ()
            signatures = [block.signature for block in final.content if isinstance(block, ThinkingBlock)]
            if piece.signature is not None and piece.signature in signatures:
                released.append(ThinkingDelta(self._message_id, piece.index, "", piece.signature))
        if unchanged:
            released += [event for buffered in self._calls.values() for event in buffered]
        return (*released, done)

    def _message(self, content: tuple[ContentBlock, ...]) -> Message:
        return Message(id=self._message_id, session_id=self.session_id, role=Role.ASSISTANT, content=content)
