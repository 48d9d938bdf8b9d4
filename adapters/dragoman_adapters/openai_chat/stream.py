"""Decodes the stream of Chat Completions (docs/reference/wires/openai-chat.md). The terminal event is [DONE], by
dialect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import STRING, Frame, SseDecoder, TextFrame
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.events import (
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
from dragoman_adapters.openai_chat import decode, decode_blocks, encode, errors, thinking_details
from dragoman_adapters.openai_chat.accumulator import (
    AudioAccumulator,
    CallAccumulator,
    FieldAccumulator,
    TextAccumulator,
)
from dragoman_adapters.openai_chat.dialect import Dialect, first_filled
from dragoman_adapters.openai_chat.thinking_details import DetailAccumulator

DONE = b"[DONE]"

_HEAD = (
    rb'"(?:(?:id|object|created|model|system_fingerprint|service_tier|obfuscation)": ?(?:%b|\d++|null)|usage": ?null)'
    % STRING
)
_EMPTY = rb'"(?:logprobs|finish_reason)": ?null'
_TEXT_FRAME = TextFrame(
    before=rb'data: ?\{(?:%b, ?)*"choices": ?\[\{"index": ?0, ?(?:%b, ?)*"delta": ?\{"' % (_HEAD, _EMPTY),
    key=rb"content|reasoning_content|reasoning",
    between=rb'": ?',
    after=rb"\}(?:, ?%b)*\}\](?:, ?%b)*\}\n\n" % (_EMPTY, _HEAD),
)

_COVERED_CHUNK_FIELDS = frozenset({"choices", "object", "obfuscation"})
_COVERED_CHOICE_FIELDS = frozenset({"index", "delta", "message", "finish_reason"})


class ChatStreamDecoder(StreamDecoder):
    """Accumulates the reply object of the stream and emits an event for each change of its first choice."""

    text_frame: ClassVar[TextFrame | None] = _TEXT_FRAME

    def __init__(self, provider: str, context: RequestContext, dialect: Dialect) -> None:
        super().__init__(provider, SseDecoder(context.frame_cap, context.body_cap))
        self._dialect = dialect
        self._reply = ReplyBuilder(context, provider)
        self._model = context.model
        self._started = False
        self._head: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"index": 0}
        self._context = context
        self._others: dict[int, ChatStreamDecoder] = {}
        self._pieces_so_far: list[
            TextAccumulator | DetailAccumulator | CallAccumulator | AudioAccumulator | encode.Piece
        ] = []
        """What has arrived, in order; a piece that arrives whole is there as it is."""
        self._rest = FieldAccumulator()
        self._open_calls: list[CallAccumulator] = []
        """The calls that have not ended."""
        self._latest_calls: dict[tuple[str, Any], CallAccumulator] = {}
        """The latest call of a field and index, and of a field (index None)."""
        self._logprobs = FieldAccumulator()
        self._reasoning: str | None = None
        self._usage: TokenUsage | None = None

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        data = frame.data.strip()
        if data == DONE:
            return self._finish()
        chunk = wirejson.loads_object(data, what="a stream event")
        error = errors.find_embedded_error(chunk, self._dialect)
        if error is None and frame.event == "error":
            error = chunk
        if error is not None:
            raise errors.decode_error(error, ErrorContext(self.provider, self._model))
        return self._chunk(chunk)

    def partial(self, status: MessageStatus) -> Message | None:
        if not self._started:
            return None
        cut = [call.position for call in self._open_calls]
        return decode.decode_message(
            self._accumulated_reply(), self._reply, self._dialect, status, pieces=self._pieces(), cut=cut
        )

    def end(self) -> Iterable[StreamEvent]:
        has_usage = self._usage is not None or not self._dialect.final_usage
        ended = all(each._choice.get("finish_reason") for each in (self, *self._others.values()))
        if not self._dialect.done_marker and ended and has_usage:
            return self._finish()
        return super().end()

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        for field, value in chunk.items():
            if value and field not in _COVERED_CHUNK_FIELDS:
                self._head[field] = value
        for choice in chunk.get("choices") or ():
            if not self._started:
                yield self._start()
            index = choice.get("index") or 0
            if index:
                self._other_choice(index, choice)
            else:
                yield from self._first_choice(choice)
        if first_filled(chunk, self._dialect.usage):
            usage = decode.decode_usage(self._head, self._dialect)
            if usage is not None and usage != self._usage:
                self._usage = usage
                if not self._started:
                    yield self._start()
                yield UsageUpdate(self._reply.message_id, usage)

    def _start(self) -> MessageStart:
        self._started = True
        return MessageStart(self._reply.message_id, self._head.get("model") or self._model)

    def _other_choice(self, index: int, choice: dict[str, Any]) -> None:
        """Accumulate another choice. It emits no events: it is an alternative of the message at the end."""
        other = self._others.get(index)
        if other is None:
            context = replace(self._context, tool_ids=ToolIdMap(), new_id=str)  # the message at the end gives the ids
            other = self._others[index] = ChatStreamDecoder(self.provider, context, self._dialect)
            other._choice["index"] = index
        for _ in other._first_choice(choice):
            pass

    def _first_choice(self, choice: dict[str, Any]) -> Iterator[StreamEvent]:
        delta = (choice["delta"] if "delta" in choice else self._whole_message(choice)) or {}
        yield from self._thoughts(delta)  # first, as models think before they answer
        for field, value in delta.items():
            # Some servers send an empty call or audio with every text.
            is_shell = field in ("function_call", "audio") and isinstance(value, dict) and not any(value.values())
            if value is not None and value != "" and not is_shell:
                yield from self._field(field, value)
        for field, value in choice.items():
            if field == "logprobs" and isinstance(value, dict):
                for name, tokens in value.items():
                    self._logprobs.add(name, tokens)
            elif value and field not in _COVERED_CHOICE_FIELDS:
                self._choice[field] = value
        if choice.get("finish_reason"):
            self._choice["finish_reason"] = choice["finish_reason"]
            yield from self._end_calls()

    def _thoughts(self, delta: Mapping[str, Any]) -> Iterator[StreamEvent]:
        detailed = (delta.get(thinking_details.DETAILS_FIELD) if self._dialect.reasoning_details else None) or ()
        for detail in detailed:
            yield from self._detail(detail)
        if detailed and any(map(thinking_details.detail_text, detailed)):
            return  # the plain text repeats them
        for field in self._dialect.reasoning_fields:
            if text := delta.get(field):
                self._reasoning = self._reasoning or field
                if field == self._reasoning:  # some servers send the same reasoning in two fields
                    position = self._text(field, text).content_block_index
                    yield ThinkingDelta(self._reply.message_id, position, text)

    def _whole_message(self, choice: dict[str, Any]) -> dict[str, Any] | None:
        """Return the message of a choice without a delta: some servers send a whole reply as one event. None if it
        repeats what has come."""
        if choice.get("text"):
            raise ValueError("a choice has a text in place of a delta, as text completions have")
        return None if self._pieces_so_far else choice.get("message")

    def _field(self, field: str, value: Any) -> Iterable[StreamEvent]:
        match field:
            case "content" if isinstance(value, dict):
                return (self._text("content", wirejson.dumps_text(value)),)
            case "content":
                return (self._text("content", value),) if isinstance(value, str) else self._parts(value)
            case "tool_calls":
                return (event for delta in value for event in self._call("tool_calls", delta))
            case "refusal":
                return (self._text("refusal", value),)
            case "function_call":
                return self._call("function_call", value)
            case "audio":
                return self._audio(value)
            case encode.IMAGES_FIELD if images := decode_blocks.generated_images({field: value}):
                self._pieces_so_far += [(field, image) for image in images]
                return ()
            case _ if field in ("role", *self._dialect.reasoning_fields):
                return ()
            case thinking_details.DETAILS_FIELD if self._dialect.reasoning_details:
                return ()
            case _:
                self._rest.add(field, value)
                return ()

    def _open_text(self, field: str, kind: str) -> tuple[int, TextAccumulator]:
        """Return the piece that continues, or a new one if another came since."""
        last = self._pieces_so_far[-1] if self._pieces_so_far else None
        if not isinstance(last, TextAccumulator) or last.ended or last.field != field or last.kind != kind:
            last = TextAccumulator(field, kind)
            self._pieces_so_far.append(last)
        return len(self._pieces_so_far) - 1, last

    def _text(self, field: str, text: str) -> TextDelta:
        position, accumulator = self._open_text(field, "text")
        accumulator.fragments.append(text)
        return TextDelta(self._reply.message_id, position, text)

    def _detail(self, native: dict[str, Any]) -> Iterable[StreamEvent]:
        """Add a fragment to the latest detail that it continues, or begin a new one."""
        for position in range(len(self._pieces_so_far) - 1, -1, -1):
            accumulator = self._pieces_so_far[position]
            if isinstance(accumulator, DetailAccumulator) and accumulator.is_continued_by(native):
                accumulator.add(native)
                break
        else:
            position = len(self._pieces_so_far)
            self._pieces_so_far.append(DetailAccumulator(native))
        if native["type"] == thinking_details.ENCRYPTED and isinstance(native.get("data"), str):
            return (ThinkingDelta(self._reply.message_id, position, "", redacted=native["data"]),)
        text, signature = thinking_details.detail_text(native), native.get("signature") or None
        return (ThinkingDelta(self._reply.message_id, position, text, signature),) if text or signature else ()

    def _parts(self, content: list[dict[str, Any]]) -> Iterator[StreamEvent]:
        for part in content:
            match part["type"]:
                case "text":
                    if part["text"]:
                        yield self._text("content", part["text"])
                case "thinking":
                    position, accumulator = self._open_text("content", "thinking")
                    accumulator.native |= {key: value for key, value in part.items() if key != "thinking"}
                    for inner in part["thinking"]:
                        if inner.get("type") == "text" and inner["text"]:
                            accumulator.fragments.append(inner["text"])
                            yield ThinkingDelta(self._reply.message_id, position, inner["text"])
                case "reference" if (
                    self._dialect.references
                    and self._pieces_so_far
                    and isinstance(last := self._pieces_so_far[-1], TextAccumulator)
                    and (last.field, last.kind) == ("content", "text")
                ):
                    last.add_reference(part)
                case _:
                    self._pieces_so_far.append(("content", part))

    def _audio(self, delta: dict[str, Any]) -> Iterable[StreamEvent]:
        audio = next((item for item in self._pieces_so_far if isinstance(item, AudioAccumulator)), None)
        if audio is None:
            self._pieces_so_far.append(audio := AudioAccumulator())
        audio.add(delta)
        return ()

    def _call(self, field: str, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        call = self._open_call(field, delta)
        if fragment := call.add(delta):
            call.pending.append(fragment)
        # The index of the blocks never goes down, so parallel calls follow each other: a call waits for the one before
        # it until that one's arguments are a complete JSON object.
        while self._open_calls:
            first = self._open_calls[0]
            yield from self._call_events(first)
            if len(self._open_calls) == 1 or not first.may_be_complete():
                return
            yield from self._end_call(first)
            if not first.ended:
                return

    def _call_events(self, call: CallAccumulator) -> Iterator[StreamEvent]:
        """Yield the start of a call, once, and the fragments that have arrived since."""
        if not call.name:
            return
        call_id = self._reply.call_id(call.position, call.id)
        if not call.started:
            call.started = True
            yield ToolUseStart(self._reply.message_id, call.position, call_id, call.name)
        if not call.is_custom:  # the input of a custom tool is not JSON
            for fragment in call.pending:
                yield ToolUseInputDelta(self._reply.message_id, call.position, call_id, fragment)
        call.pending.clear()

    def _open_call(self, field: str, delta: dict[str, Any]) -> CallAccumulator:
        """Return the call that a delta continues: that of its index, or else the last one."""
        index = delta.get("index")
        call = self._latest_calls.get((field, index))
        if call is None or not call.is_continued_by(delta):
            call = CallAccumulator(field, len(self._pieces_so_far))
            self._pieces_so_far.append(call)
            self._open_calls.append(call)
            self._latest_calls[field, index] = self._latest_calls[field, None] = call
        return call

    def _end_calls(self) -> Iterator[StreamEvent]:
        """Yield the end events of the calls with complete arguments. A truncated call has none."""
        last = len(self._pieces_so_far) - 1
        for call in tuple(self._open_calls):
            yield from self._call_events(call)
            if call.started:
                yield from self._end_call(call, last=call.position == last)

    def _end_call(self, call: CallAccumulator, *, last: bool = False) -> Iterator[StreamEvent]:
        """Yield the end of a call with complete arguments. ``last``: it is the last piece of a reply that ended."""
        piece, call_id = call.piece(), self._reply.call_id(call.position, call.id)
        cut = last and bool(decode.truncated_calls([piece], self._choice.get("finish_reason")))
        block, _ = decode_blocks.decode_block(piece, call_id, self.provider, cut=cut)
        if isinstance(block, ToolUseBlock) and block.raw_input is None:
            call.ended = True
            self._open_calls.remove(call)
            yield ToolUseEnd(self._reply.message_id, call.position, block.id, block.input)

    def _finish(self) -> Iterator[StreamEvent]:
        if not self._pieces_so_far and not self._choice.get("finish_reason"):
            yield from super().end()  # a marker without any reply
        yield from self._end_calls()
        yield MessageComplete(
            decode.decode_message(self._accumulated_reply(), self._reply, self._dialect, pieces=self._pieces())
        )

    def _pieces(self) -> list[encode.Piece]:
        return [item if isinstance(item, tuple) else item.piece() for item in self._pieces_so_far]

    def _accumulated_reply(self) -> dict[str, Any]:
        """Return the reply object so far. Of the first choice, the pieces have the content."""
        others = [other._native_choice(other._pieces()) for _, other in sorted(self._others.items())]
        return {**self._head, "choices": [self._native_choice(()), *others]}

    def _native_choice(self, pieces: Sequence[encode.Piece]) -> dict[str, Any]:
        choice = {**self._choice, "message": decode_blocks.join_pieces(pieces) | self._rest.fields()}
        if logprobs := self._logprobs.fields():
            choice["logprobs"] = logprobs
        return choice
