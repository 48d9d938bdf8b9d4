"""Encodes stream events in a client's wire. A stream always ends with the wire's own end or with its error.

Blocks are written one at a time: what arrives while a call is open waits for the end of the call. What the events do
not carry (native blocks, images, citations) follows from the complete message at the end.
"""

from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Container,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, OPAQUE, TEXT, THINKING, ReplyWriter, place_opaque
from dragoman.adapter.errors import (
    MALFORMED_ERRORS,
    DragomanError,
    MalformedReplyError,
    NetworkError,
    StreamTruncatedError,
)
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
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
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.usage import TokenUsage

BlockEvent = TextDelta | ThinkingDelta | ToolUseStart | ToolUseInputDelta | ToolUseEnd


class ReplyStreamEncoder(ABC):
    """Takes events and returns bytes; `done` is set once the end was returned.

    Subclasses write the parts of their wire. The start of the reply is held back until the first event after it, so
    that counts that the provider sends at once can stand in it.
    """

    media_type: ClassVar[str] = "text/event-stream"
    """The content type of the stream."""
    ordered: ClassVar[bool] = True
    """Whether the place of a block in the reply counts. If so, and the provider of the reply is that of the wire, what
    follows a block without events waits for the end."""

    state_first: ClassVar[bool] = False
    """Whether blocks that only the provider can read must precede the text and the calls at the end of a reply of
    another provider. Thinking that follows a text then waits for the next text."""
    calls_wait: ClassVar[bool] = False
    """Whether the state of a reply of another provider is written before its calls or in them. The calls then wait for
    the end of the reply, because all of the state is known only there."""

    def __init__(self, writer: ReplyWriter) -> None:
        self.writer = writer
        self.done = False
        self._state_first = self.state_first and not writer.is_own
        self._calls_wait = self.calls_wait and not writer.is_own and writer.state.can_seal
        self._said = self._thought = False
        """Whether a text or a call has begun, and whether thinking came."""
        self._late: list[ThinkingDelta] = []
        """Thinking that follows a text and waits for the next one."""
        self.start: MessageStart | None = None
        self.usage: TokenUsage | None = None
        """The latest counts."""
        self._began = False
        self._holds_rest = False
        """Whether all that follows is written from the complete message: see `ordered` and `calls_wait`."""
        self._kind = ""
        """The kind of the open block; empty if none is open."""
        self._index = -1
        """The place of the open block, or of the last one."""
        self._call = ""
        self._signature: str | None = None
        self._fragments: list[str] = []
        """What was sent of the open block."""
        self._sent: dict[int, list[str]] = {}
        """What was sent by place, without the open block."""
        self._highest = -1
        """The highest place of which something was sent."""
        self._queue: list[BlockEvent] = []
        """The events that wait for the end of the open call."""

    @abstractmethod
    def begin(self) -> bytes:
        """Write the start of the reply."""

    @abstractmethod
    def open_block(self, kind: str, tool_use_id: str, name: str) -> bytes:
        """Write the start of a text, of thinking or of a call."""

    @abstractmethod
    def delta(self, text: str) -> bytes:
        """Write a delta of the open block: text, thinking, or JSON of a call's input."""

    @abstractmethod
    def close_block(self, kind: str, index: int, content: str, signature: str | None) -> bytes:
        """Write the end of the open block. ``content`` is all that was sent of it."""

    @abstractmethod
    def write_other(self, index: int, block: ContentBlock, message: Message) -> bytes:
        """Write a block of the message that no event carries, or record its loss."""

    @abstractmethod
    def end(self, message: Message) -> bytes:
        """Write the end of a complete reply."""

    @abstractmethod
    def write_error(self, error: DragomanError) -> bytes:
        """Write an error that ends the reply."""

    def write_redacted(self, index: int, block: RedactedThinkingBlock) -> bytes:
        """Write thinking that only its provider reads, for a wire with `state_first`."""
        return b""

    def write_state(self, message: Message, shown: Container[int]) -> bytes:
        """Write the rest of a message, for a wire with `state_first`. ``shown`` are the blocks that the client gets."""
        return b""

    def begin_unsent(self, message: Message, places: Sequence[int]) -> None:
        """Prepare to write the blocks that waited, for a wire with `calls_wait`."""
        return

    def read_call(self, index: int, arguments: str) -> dict[str, Any] | None:
        """Return the arguments of a call, for a wire that holds them as an object; None, and a loss, if they are not
        one."""
        parsed, malformed = wirejson.parse_arguments(arguments)
        if malformed is None:
            return parsed
        reason = "arguments that are not a JSON object: the call is left out"
        self.writer.record_loss(LossKind.INVALID_INPUT, reason, index=index, block=CALL)
        return None

    def write_citations(self, index: int, citations: tuple[Citation, ...]) -> bytes:
        """Write the sources of the text that is open, or record their loss."""
        self.lose_citations(index)
        return b""

    def lose_citations(self, index: int) -> None:
        """Record that the sources of a text are left out."""
        reason = "the sources of a text are known only after its end was sent, or the wire has none: left out"
        self.writer.record_loss(LossKind.CITATIONS, reason, index=index, block="text")

    def feed(self, event: StreamEvent) -> bytes:
        """Return the bytes for an event. Never raises for events in a wrong order: an error ends the reply then."""
        if self.done:
            return b""
        try:
            return _HANDLERS[type(event)](self, event)
        except DragomanError as error:
            return self.fail(error)
        except MALFORMED_ERRORS as error:
            wrapped = MalformedReplyError(f"the events are not in order: {type(error).__name__}: {error}")
            wrapped.__cause__ = error
            return self.fail(wrapped)

    def finish(self) -> bytes:
        """Return what the end of the events requires: an error if the reply is not complete."""
        if self.done:
            return b""
        return self.fail(StreamTruncatedError("the events ended before the reply was complete"))

    def fail(self, error: Exception) -> bytes:
        """End the reply with an error."""
        if self.done:
            return b""
        self.done = True
        if not isinstance(error, DragomanError):
            error = NetworkError(f"the reply broke off: {type(error).__name__}")
        self.writer.finish()
        return self.write_error(error)

    def _on_start(self, event: MessageStart) -> bytes:
        if self.start is not None:
            raise ValueError("a second message starts in one stream")
        self.start = event
        self.writer.start(event)
        return b""

    def _on_usage(self, event: UsageUpdate) -> bytes:
        self.usage = event.usage
        return self._begin()

    def _begin(self) -> bytes:
        if self._began:
            return b""
        if self.start is None:
            raise ValueError("a reply continues before its start")
        self._began = True
        return self.begin()

    def _on_text(self, event: TextDelta) -> bytes:
        if self._kind is CALL:
            return self._enqueue(event)
        text = event.text
        if event.content_block_index == self._index and self._kind is TEXT:
            self._fragments.append(text)  # not by `_continue`: most events are such texts
            return self.delta(text) if text else b""
        if not text:
            return b""
        late = b""
        if self._late and not self._holds_rest:
            waiting, self._late, self._said = self._late, [], False
            late = b"".join(map(self._on_thinking, waiting))
        return late + self._switch(TEXT, event.content_block_index, text)

    def _on_thinking(self, event: ThinkingDelta) -> bytes:
        self._thought = True
        if self._state_first and self._said:
            self._late.append(event)
            return b""
        if self._kind is CALL:
            return self._enqueue(event)
        if event.redacted is not None:
            return self._on_redacted(event) if self._state_first else b""
        text = event.text
        if event.content_block_index == self._index and self._kind is THINKING:
            self._signature = event.signature or self._signature
            return self._continue(text)
        if not (text or event.signature):
            return b""
        written = self._switch(THINKING, event.content_block_index, text)
        if not self._holds_rest:
            self._signature = event.signature
        return written

    def _on_redacted(self, event: ThinkingDelta) -> bytes:
        index = event.content_block_index
        written = self._begin() + self._close()
        self._highest = max(self._highest, index)
        self._sent.setdefault(index, [])
        return written + self.write_redacted(index, RedactedThinkingBlock(data=event.redacted or ""))

    def _on_call(self, event: ToolUseStart) -> bytes:
        if self._calls_wait:
            follows_unsent = event.content_block_index > self._highest + 1
            self._holds_rest = self._holds_rest or self._thought or follows_unsent or bool(event.signature)
        if self._kind is CALL and event.tool_use_id != self._call:
            return self._enqueue(event)
        if event.content_block_index in self._sent:
            raise ValueError("a call starts twice")
        return self._switch(CALL, event.content_block_index, "", event.tool_use_id, event.tool_name)

    def _on_rest_of_call(self, event: ToolUseInputDelta | ToolUseEnd) -> bytes:
        if self._holds_rest:
            return b""
        if self._kind is not CALL:
            raise ValueError("a call continues that is not open")
        if event.tool_use_id != self._call:
            return self._enqueue(event)
        if isinstance(event, ToolUseInputDelta):
            return self._continue(event.partial_json)
        written = b"" if self._fragments else self._continue(wirejson.dumps_text(event.final_input))
        return written + self._close() + self._resume()

    def _enqueue(self, event: BlockEvent) -> bytes:
        """Keep an event until the open call has ended."""
        self._queue.append(event)
        return b""

    def _resume(self) -> bytes:
        """Write the events that waited for the end of a call."""
        if not self._queue:
            return b""
        waiting, self._queue = self._queue, []
        return b"".join(_HANDLERS[type(event)](self, event) for event in waiting)

    def _switch(self, kind: str, index: int, text: str, tool_use_id: str = "", name: str = "") -> bytes:
        """End the open block and begin another. An index may occur again: the wire then has two blocks for it."""
        if self._holds_rest or (self.ordered and self.writer.is_own and index > self._highest + 1):
            self._holds_rest = True
            return self._begin()
        self._said = self._said or kind is not THINKING
        return self._begin() + self._close() + self._open(kind, index, text, tool_use_id, name)

    def _open(self, kind: str, index: int, text: str, tool_use_id: str = "", name: str = "") -> bytes:
        """Begin a block with its first text."""
        written = self.open_block(kind, tool_use_id, name)
        self._index, self._kind, self._call, self._signature = index, kind, tool_use_id, None
        self._highest = max(self._highest, index)
        self._fragments = []
        self._sent.setdefault(index, [])
        return written + self._continue(text)

    def _continue(self, text: str) -> bytes:
        """Write more of the open block."""
        if not text:
            return b""
        self._fragments.append(text)
        return self.delta(text)

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        kind, self._kind = self._kind, ""
        content = "".join(self._fragments)
        self._sent[self._index].append(content)
        return self.close_block(kind, self._index, content, self._signature)

    def _on_complete(self, event: MessageComplete) -> bytes:
        message = event.message
        self.writer.count_alternatives(message)
        if message.metadata.status is not MessageStatus.COMPLETE:
            raise StreamTruncatedError(f"the reply has the status {message.metadata.status}")
        if (failure := self.writer.find_failure(message)) is not None:
            raise failure
        self.start = self.start or MessageStart(message.id, message.metadata.model or self.writer.model)
        self.usage = message.usage or self.usage
        written = [self._begin()]
        while self._queue:  # a call that never ended
            written += [self._close(), self._resume()]
        if self._kind and self._index < len(message.content):
            written.append(self._complete_open(self._index, message.content[self._index]))
        written.append(self._close())
        unsent = [index for index in range(len(message.content)) if index not in self._sent]
        if self._state_first:
            written.append(self._write_unsent(message, unsent))
        elif self._calls_wait:
            self.begin_unsent(message, unsent)
        written += self._rest_of_blocks(message)
        if self._highest >= len(message.content):
            self._lose_difference(self._highest)
        written.append(self.end(message))
        self.done = True
        self.writer.finish()
        return b"".join(written)

    def _rest_of_blocks(self, message: Message) -> Iterator[bytes]:
        """Write what the events did not carry, block by block; what cannot be sent any more is a loss."""
        for index, block in enumerate(message.content):
            if index not in self._sent:
                if not self._state_first:
                    yield self._write_whole(index, block, message)
            elif index != self._index and (rest := self._missing_end(index, block, "".join(self._sent[index]))):
                reason = "the end of the block was sent after later blocks"
                self.writer.record_loss(LossKind.FLATTENED, reason, index=index, block=block.type)
                yield self._write_whole(index, rest, message)
            elif isinstance(block, TextBlock) and block.citations and index != self._index:
                self.lose_citations(index)

    def _write_unsent(self, message: Message, places: list[int]) -> bytes:
        """Write the blocks that were not sent, with the rest of the message in front of the text or the calls that end
        the reply. If these were sent before, what only the provider reads is kept elsewhere, or is a loss."""
        shown = {index for index in places if _is_shown(message.content[index])}
        if self._said and all(_kind_of(message.content[index]) == OPAQUE for index in places):
            for index in shown:
                if message.content[index].type == THINKING:
                    reason = "thinking behind the end of the answer, which clients would take for it: left out"
                    self.writer.record_loss(LossKind.THINKING, reason, Severity.INFO, index=index, block=THINKING)
            self.writer.state.keep_late(message, set(self._sent))
            unwritten = [index for index in places if index not in shown]
            return b"".join(self._write_whole(index, message.content[index], message) for index in unwritten)
        rest = len(message.content)
        ordered = place_opaque(places, [rest], lambda index: _kind_of(message.content[index]))
        sent = {*self._sent, *shown}
        return b"".join(
            self.write_state(message, sent)
            if index == rest
            else self._write_whole(index, message.content[index], message)
            for index in ordered
        )

    def _complete_open(self, index: int, block: ContentBlock) -> bytes:
        """Write what the deltas of the open block lack."""
        written = b""
        if (rest := self._missing_end(index, block, "".join(self._sent[index] + self._fragments))) is not None:
            written = self._continue(rest.text)
        if isinstance(block, ThinkingBlock):
            self._signature = block.signature or self._signature
        if isinstance(block, TextBlock) and block.citations:
            written += self.write_citations(index, block.citations)
        return written

    def _missing_end(self, index: int, block: ContentBlock, sent: str) -> TextBlock | ThinkingBlock | None:
        """Return the end of a text, or of thinking, that its deltas lack; None if they lack nothing."""
        if not isinstance(block, (TextBlock, ThinkingBlock)) or sent == block.text:
            return None
        if not block.text.startswith(sent):
            self._lose_difference(index, block.type)
            return None
        return block.model_copy(update={"text": block.text[len(sent) :]})

    def _lose_difference(self, index: int, block_type: str = "") -> None:
        reason = "the client was sent deltas with another content than the complete message has"
        self.writer.record_loss(LossKind.FLATTENED, reason, Severity.WARNING, index=index, block=block_type)

    def _write_whole(self, index: int, block: ContentBlock, message: Message) -> bytes:
        """Write a block that had no events."""
        match block:
            case TextBlock() if not block.text:
                return b""
            case TextBlock():
                written = self._open(TEXT, index, block.text)
                if block.citations:
                    written += self.write_citations(index, block.citations)
            case ThinkingBlock():
                written = self._open(THINKING, index, block.text)
                self._signature = block.signature
            case ToolUseBlock():
                arguments = block.raw_input if block.raw_input is not None else wirejson.dumps_text(block.input)
                written = self._open(CALL, index, arguments, block.id, block.name)
            case _:
                return self.write_other(index, block, message)
        return written + self._close()


_HANDLERS: dict[type, Callable[[ReplyStreamEncoder, Any], bytes]] = {
    TextDelta: ReplyStreamEncoder._on_text,
    ThinkingDelta: ReplyStreamEncoder._on_thinking,
    ToolUseStart: ReplyStreamEncoder._on_call,
    ToolUseInputDelta: ReplyStreamEncoder._on_rest_of_call,
    ToolUseEnd: ReplyStreamEncoder._on_rest_of_call,
    UsageUpdate: ReplyStreamEncoder._on_usage,
    MessageStart: ReplyStreamEncoder._on_start,
    MessageComplete: ReplyStreamEncoder._on_complete,
    ErrorEvent: lambda encoder, event: encoder.fail(event.error),
}


def _is_shown(block: ContentBlock) -> bool:
    """Whether a client of a wire with `state_first` gets a block of another provider."""
    return block.type in (THINKING, CALL, "redacted_thinking") or (isinstance(block, TextBlock) and bool(block.text))


def _kind_of(block: ContentBlock) -> str:
    """Return what a block is for clients, in the words of `place_opaque`. Blocks that they do not get are opaque."""
    return block.type if block.type in (TEXT, CALL) and _is_shown(block) else OPAQUE


def encode_events(events: Iterable[StreamEvent], encoder: ReplyStreamEncoder) -> Iterator[bytes]:
    """Yield the bytes of a stream. An exception of the events ends it with the wire's error. The events are closed
    with it."""
    try:
        for event in events:
            if data := encoder.feed(event):
                yield data
            if encoder.done:
                return
        if data := encoder.finish():
            yield data
    except Exception as error:
        yield encoder.fail(error)
    finally:
        if isinstance(events, Generator):
            events.close()


async def encode_events_async(events: AsyncIterable[StreamEvent], encoder: ReplyStreamEncoder) -> AsyncIterator[bytes]:
    """The async twin of `encode_events`."""
    try:
        async for event in events:
            if data := encoder.feed(event):
                yield data
            if encoder.done:
                return
        if data := encoder.finish():
            yield data
    except Exception as error:
        yield encoder.fail(error)
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
