"""What is shown of a streamed reply before all of it is judged: nothing, or what lies before a declared window.

Plugins that judge replies say how many characters they must see together (`Plugin.window`). Where all of them do, text
and thinking are shown as far as that many characters before what has arrived, as the plugins leave them; a call of a
tool is shown when it is whole. Where one does not, nothing is shown before the reply is complete. What the history
holds, and message_complete with it, is what the plugins made of the whole.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dragoman.adapter.contract import Adapter
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
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.running import Steps
from dragoman.session.policing import Policing

Shown = Sequence[StreamEvent]


@dataclass(slots=True)
class _Piece:
    """A block of text or thinking while it streams."""

    kind: type[TextDelta] | type[ThinkingDelta]
    index: int
    enough: int
    """How many held characters are worth judging."""
    held: str = ""
    shown: str = ""
    signature: str | None = None
    ended: bool = False


@dataclass(slots=True)
class Gate:
    """Stands between one streamed reply and its caller."""

    policing: Policing
    adapter: Adapter
    session_id: str
    denied: Callable[[Message | None], object]
    """Is given the reply that was denied, as it was paid for; None where it was not complete."""
    _window: int | None = 0
    _message_id: str = ""
    _held: list[StreamEvent] = field(default_factory=list)
    _pieces: dict[int, _Piece] = field(default_factory=dict)
    _calls: dict[str, list[StreamEvent]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._window = self.policing.pipeline.window

    def quick(self, event: StreamEvent) -> Shown | None:
        """What is shown for an event about which nobody has to be asked yet; None where someone has to: see `ask`."""
        match event:
            case MessageComplete() | ErrorEvent():
                return None
            case MessageStart():
                self._message_id = event.message_id
                return (event,)
            case _ if self._window is None:
                self._held.append(event)
                return ()
            case UsageUpdate():
                return (event,)
            case _ if self._window == 0:
                return (event,)
            case TextDelta() | ThinkingDelta() if (piece := self._alone(event)) is not None:
                piece.held += event.text
                piece.signature = getattr(event, "signature", None) or piece.signature
                return () if len(piece.held) < piece.enough else None
            case ToolUseInputDelta():
                self._calls.setdefault(event.tool_use_id, []).append(event)
                return ()
            case _:
                return None

    def ask(self, event: StreamEvent) -> Steps[Shown]:
        """What is shown for an event that `quick` gave None for. Raises PolicyDeniedError: that is the stream's end."""
        match event:
            case MessageComplete():
                return (yield from self._complete(event.message))
            case ErrorEvent():
                remains = yield from self.policing.remains(self.adapter, event.partial)
                if remains is None and event.partial is not None:
                    remains = event.partial.model_copy(update={"content": ()})
                return (replace(event, partial=remains),)
        try:
            return (yield from self._pieces_of(event))
        except PolicyDeniedError:
            self.denied(None)
            raise

    def _pieces_of(self, event: StreamEvent) -> Steps[Shown]:
        shown: list[StreamEvent] = []
        index = getattr(event, "content_block_index", None)
        for piece in list(self._pieces.values()):
            if piece.index != index and not piece.ended:
                shown += yield from self._end(piece)
        match event:
            case TextDelta() | ThinkingDelta():
                if index not in self._pieces:
                    self._begin(event)
                    again = self.quick(event)
                    if again is not None:
                        return (*shown, *again)
                piece = self._pieces[event.content_block_index]
                if not piece.ended:
                    shown += yield from self._advance(piece)
            case ToolUseStart():
                self._calls.setdefault(event.tool_use_id, []).append(event)
            case ToolUseEnd():
                shown += yield from self._whole_call(event)
        return shown

    def _alone(self, event: TextDelta | ThinkingDelta) -> _Piece | None:
        """The piece that the event goes on with, if no other one is to be ended before."""
        piece = self._pieces.get(event.content_block_index)
        if piece is None or type(event) is not piece.kind:
            return None
        if piece.ended or all(other is piece or other.ended for other in self._pieces.values()):
            return piece
        return None

    def _begin(self, event: TextDelta | ThinkingDelta) -> None:
        window = self._window or 0
        self._pieces[event.content_block_index] = _Piece(type(event), event.content_block_index, 2 * window)

    def _advance(self, piece: _Piece) -> Steps[Shown]:
        """Shows what no later text can change: all but the last window, cut where that changes nothing."""
        window = self._window or 0
        made = yield from self._made_of(piece, piece.held)
        cut = _cut(piece.held, window)
        first = piece.held[:cut]
        if made != piece.held:
            before = yield from self._made_of(piece, first)
            behind = yield from self._made_of(piece, piece.held[cut:])
            if before + behind != made:  # what was changed lies across the cut: wait for one that does not
                piece.enough = len(piece.held) + window
                return ()
            first = before
        piece.held = piece.held[cut:]
        piece.enough = len(piece.held) + window
        return self._delta(piece, first)

    def _end(self, piece: _Piece) -> Steps[Shown]:
        """Shows what was held back of a block that is complete."""
        made = yield from self._made_of(piece, piece.held)
        piece.held, piece.ended = "", True
        return self._delta(piece, made)

    def _made_of(self, piece: _Piece, text: str) -> Steps[str]:
        if not text:
            return ""
        kind = TextBlock if piece.kind is TextDelta else ThinkingBlock
        made = yield from self.policing.piece(self.adapter, self._message((kind(text=text),)))
        return "".join(block.text for block in made.content if isinstance(block, kind))

    def _delta(self, piece: _Piece, text: str) -> Shown:
        if not text:
            return ()
        piece.shown += text
        return (piece.kind(self._message_id, piece.index, text),)

    def _whole_call(self, event: ToolUseEnd) -> Steps[Shown]:
        held = self._calls.pop(event.tool_use_id, [])
        start = next((each for each in held if isinstance(each, ToolUseStart)), None)
        if start is None:
            return ()
        call = ToolUseBlock(id=event.tool_use_id, name=start.tool_name, input=event.final_input)
        made = yield from self.policing.piece(self.adapter, self._message((call,)))
        if made.content == (call,):
            return (*held, event)
        return tuple(each for use in made.tool_uses for each in _call_events(self._message_id, start, use))

    def _complete(self, message: Message) -> Steps[Shown]:
        final = yield from self.policing.reply(self.adapter, message, self.denied)
        done = MessageComplete(final)
        same = final.content == message.content
        if self._window is None:
            counted = [event for event in self._held if isinstance(event, UsageUpdate)]
            return (*(self._held if same else [*_told(final), *counted]), done)
        shown: list[StreamEvent] = []
        for piece in self._pieces.values():
            kind = TextBlock if piece.kind is TextDelta else ThinkingBlock
            if not piece.ended:
                made = piece.held if same else (yield from self._made_of(piece, piece.held))
                whole = [block.text for block in final.content if isinstance(block, kind)]
                # Where the whole was changed in another way than its pieces, the rest is in message_complete alone.
                shown += self._delta(piece, made) if same or piece.shown + made in whole else ()
            signatures = [block.signature for block in final.content if isinstance(block, ThinkingBlock)]
            if piece.signature is not None and piece.signature in signatures:
                shown.append(ThinkingDelta(self._message_id, piece.index, "", piece.signature))
        if same:
            shown += [event for held in self._calls.values() for event in held]
        return (*shown, done)

    def _message(self, content: tuple[ContentBlock, ...]) -> Message:
        fields = {"id": self._message_id, "session_id": self.session_id}
        return Message(role=Role.ASSISTANT, content=content, **fields)


def _cut(text: str, window: int) -> int:
    """Behind the last white space that lies a window before the end; without any, a window before the end."""
    last = len(text) - window
    for place in range(last, 0, -1):
        if text[place - 1].isspace():
            return place
    return last


def _told(message: Message) -> list[StreamEvent]:
    """A whole message as events."""
    told: list[StreamEvent] = []
    for index, block in enumerate(message.content):
        match block:
            case TextBlock(text=text) if text:
                told.append(TextDelta(message.id, index, text))
            case ThinkingBlock():
                told.append(ThinkingDelta(message.id, index, block.text, block.signature))
            case ToolUseBlock() if block.raw_input is None:
                start = ToolUseStart(message.id, index, block.id, block.name)
                told += _call_events(message.id, start, block)
            case _:  # what streams as no delta either
                pass
    return told


def _call_events(message_id: str, start: ToolUseStart, use: ToolUseBlock) -> Shown:
    index = start.content_block_index
    return (
        start,
        ToolUseInputDelta(message_id, index, use.id, json.dumps(use.input, ensure_ascii=False)),
        ToolUseEnd(message_id, index, use.id, use.input),
    )
