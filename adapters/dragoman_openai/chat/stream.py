"""Chunks to events for Chat Completions (wire reference 4 and 7). The terminal event is [DONE], by dialect."""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.decoding import StreamDecoder
from dragoman.adapter.failures import Origin
from dragoman.adapter.framing import Frame, SseDecoder
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
from dragoman_openai.chat import decode, details, errors, parts
from dragoman_openai.chat.details import Detail
from dragoman_openai.chat.dialect import Dialect, first_filled
from dragoman_openai.chat.gathering import Call, Gathered, Part, Sound, Speech
from dragoman_openai.chat.usage import usage

DONE = b"[DONE]"

_CHUNK_SPOKEN_FOR = frozenset({"choices", "object", "obfuscation"})
_CHOICE_SPOKEN_FOR = frozenset({"index", "delta", "message", "finish_reason"})


class ChatDecoder(StreamDecoder):
    """Gathers the reply object that the chunks add up to, and emits an event for each change of its first choice."""

    def __init__(self, provider: str, context: RequestContext, dialect: Dialect) -> None:
        super().__init__(provider, SseDecoder(context.frame_cap, context.body_cap))
        self._dialect = dialect
        self._reply = Reply(context, provider)
        self._model = context.model
        self._started = False
        self._head: dict[str, Any] = {}
        self._choice: dict[str, Any] = {"index": 0}
        self._others: dict[int, dict[str, Any]] = {}
        self._said: list[Speech | Detail | Call | Sound | Part] = []
        self._rest = Gathered()
        self._logprobs = Gathered()
        self._reasoning: str | None = None
        self._counted: TokenUsage | None = None

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        data = frame.data.strip()
        if data == DONE:
            return self._finish()
        if not data:
            return ()
        chunk = wirejson.loads_object(data, what="a stream event")
        failed = errors.failure(chunk, self._dialect)
        if failed is None and frame.event == "error":
            failed = chunk
        if failed is not None:
            raise errors.read(failed, Origin(self.provider, self._model))
        return self._chunk(chunk)

    def partial(self, status: MessageStatus) -> Message | None:
        if not self._started:
            return None
        cut = [place for place, item in enumerate(self._said) if isinstance(item, Call) and not item.ended]
        return decode.message(self._native(), self._reply, self._dialect, status, said=self._pieces(), cut=cut)

    def end(self) -> Iterable[StreamEvent]:
        told = self._counted is not None or not self._dialect.final_usage
        if not self._dialect.done_marker and self._choice.get("finish_reason") and told:
            return self._finish()
        return super().end()

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        for field, value in chunk.items():
            if value and field not in _CHUNK_SPOKEN_FOR:
                self._head[field] = value
        for choice in chunk.get("choices") or ():
            if not self._started:
                yield self._start()
            index = choice.get("index") or 0
            if index:
                self._other(index, choice)
            else:
                yield from self._first(choice)
        if first_filled(chunk, self._dialect.usage):
            counted = usage(self._head, self._dialect)
            if counted is not None and counted != self._counted:
                self._counted = counted
                if not self._started:
                    yield self._start()
                yield UsageUpdate(self._reply.message_id, counted)

    def _start(self) -> MessageStart:
        self._started = True
        return MessageStart(self._reply.message_id, self._head.get("model") or self._model)

    def _other(self, index: int, choice: dict[str, Any]) -> None:
        """A further choice, which only provider_raw keeps."""
        held = self._others.setdefault(index, {"index": index, "message": Gathered()})
        for field, value in (choice.get("delta") or {}).items():
            held["message"].add(field, value)
        if choice.get("finish_reason"):
            held["finish_reason"] = choice["finish_reason"]

    def _first(self, choice: dict[str, Any]) -> Iterator[StreamEvent]:
        delta = choice.get("delta") or {}
        detailed = (delta.get(details.FIELD) if self._dialect.reasoning_details else None) or ()
        for detail in detailed:  # first, as models think before they speak
            yield from self._detail(detail)
        if not (detailed and any(map(details.text, detailed))):  # else the plain text only repeats them
            for field in self._dialect.reasoning_fields:
                if delta.get(field):
                    yield from self._thinking(field, delta[field])
        for field, value in delta.items():
            if value is not None and value != "":
                yield from self._field(field, value)
        for field, value in choice.items():
            if field == "logprobs" and isinstance(value, dict):
                for name, tokens in value.items():
                    self._logprobs.add(name, tokens)
            elif value and field not in _CHOICE_SPOKEN_FOR:
                self._choice[field] = value
        if choice.get("finish_reason"):
            self._choice["finish_reason"] = choice["finish_reason"]
            yield from self._ends()

    def _field(self, field: str, value: Any) -> Iterable[StreamEvent]:
        match field:
            case "content":
                return (self._text("content", value),) if isinstance(value, str) else self._parts(value)
            case "tool_calls":
                return [event for delta in value for event in self._call("tool_calls", delta)]
            case "refusal":
                return (self._text("refusal", value),)
            case "function_call":
                return self._call("function_call", value)
            case "audio":
                return self._sound(value)
            case _ if field in ("role", *self._dialect.reasoning_fields):
                return ()
            case details.FIELD if self._dialect.reasoning_details:
                return ()
            case _:
                self._rest.add(field, value)
                return ()

    def _speech(self, field: str, kind: str) -> tuple[int, Speech]:
        """The piece that goes on, or a new one behind what was said since."""
        last = self._said[-1] if self._said else None
        if not isinstance(last, Speech) or last.ended or last.field != field or last.kind != kind:
            last = Speech(field, kind)
            self._said.append(last)
        return len(self._said) - 1, last

    def _text(self, field: str, text: str) -> TextDelta:
        place, speech = self._speech(field, "text")
        speech.fragments.append(text)
        return TextDelta(self._reply.message_id, place, text)

    def _thinking(self, field: str, text: str) -> Iterable[StreamEvent]:
        """Some servers send the same reasoning under two names: the first that is filled counts."""
        if self._reasoning is None:
            self._reasoning = field
        if field != self._reasoning:
            return ()
        place, speech = self._speech(field, "text")
        speech.fragments.append(text)
        return (ThinkingDelta(self._reply.message_id, place, text),)

    def _detail(self, native: dict[str, Any]) -> Iterable[StreamEvent]:
        """A fragment goes on with the latest detail that it belongs to, or begins one."""
        for place in range(len(self._said) - 1, -1, -1):
            held = self._said[place]
            if isinstance(held, Detail) and held.is_continued_by(native):
                held.add(native)
                break
        else:
            place = len(self._said)
            self._said.append(Detail(native))
        text, signature = details.text(native), native.get("signature") or None
        return (ThinkingDelta(self._reply.message_id, place, text, signature),) if text or signature else ()

    def _parts(self, content: list[dict[str, Any]]) -> Iterator[StreamEvent]:
        for part in content:
            match part["type"]:
                case "text":
                    if part["text"]:
                        yield self._text("content", part["text"])
                case "thinking":
                    place, speech = self._speech("content", "thinking")
                    speech.native |= {key: value for key, value in part.items() if key != "thinking"}
                    for inner in part["thinking"]:
                        if inner.get("type") == "text" and inner["text"]:
                            speech.fragments.append(inner["text"])
                            yield ThinkingDelta(self._reply.message_id, place, inner["text"])
                case "reference" if self._dialect.references and (text := self._latest_text()):
                    text.back(part)
                case _:
                    self._said.append(Part(part))

    def _latest_text(self) -> Speech | None:
        last = self._said[-1] if self._said else None
        return last if isinstance(last, Speech) and (last.field, last.kind) == ("content", "text") else None

    def _sound(self, delta: dict[str, Any]) -> Iterable[StreamEvent]:
        sound = next((item for item in self._said if isinstance(item, Sound)), None)
        if sound is None:
            sound = Sound()
            self._said.append(sound)
        sound.add(delta)
        return ()

    def _call(self, field: str, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        place, call = self._called(field, delta)
        fragment = call.add(delta)
        if fragment:
            call.pending.append(fragment)
        if not call.name:
            return
        call_id = self._reply.call_id(place, call.id)
        if not call.started:
            call.started = True
            yield ToolUseStart(self._reply.message_id, place, call_id, call.name)
        if not call.is_custom:  # what a custom tool is given is no JSON
            for held in call.pending:
                yield ToolUseInputDelta(self._reply.message_id, place, call_id, held)
        call.pending.clear()

    def _called(self, field: str, delta: dict[str, Any]) -> tuple[int, Call]:
        """The call that a delta goes on with: that of its index, or else the last of all."""
        index = delta.get("index")
        for place in range(len(self._said) - 1, -1, -1):
            held = self._said[place]
            if isinstance(held, Call) and held.field == field and index in (None, held.index):
                if held.is_continued_by(delta):
                    return place, held
                break
        call = Call(field, index)
        self._said.append(call)
        return len(self._said) - 1, call

    def _ends(self) -> Iterator[StreamEvent]:
        """The ends of the calls whose arguments are whole. One that was cut off, or is no object, never ends."""
        for place, call in enumerate(self._said):
            if not isinstance(call, Call) or call.ended or not call.started:
                continue
            piece = call.piece()
            last = place == len(self._said) - 1
            cut = last and bool(decode.cut_by_length([piece], self._choice.get("finish_reason")))
            block, _ = parts.block(piece, self._reply.call_id(place, call.id), self.provider, cut=cut)
            if isinstance(block, ToolUseBlock) and block.raw_input is None:
                call.ended = True
                yield ToolUseEnd(self._reply.message_id, place, block.id, block.input)

    def _finish(self) -> Iterator[StreamEvent]:
        if not self._said and not self._choice.get("finish_reason"):
            yield from super().end()  # a marker behind nothing at all
        yield from self._ends()
        yield MessageComplete(decode.message(self._native(), self._reply, self._dialect, said=self._pieces()))

    def _pieces(self) -> list[parts.Piece]:
        return [item.piece() for item in self._said]

    def _native(self) -> dict[str, Any]:
        """The reply object as far as it came, without what was said."""
        choice = {**self._choice, "message": self._rest.fields()}
        if logprobs := self._logprobs.fields():
            choice["logprobs"] = logprobs
        others = [{**other, "message": other["message"].fields()} for _, other in sorted(self._others.items())]
        return {**self._head, "choices": [choice, *others]}
