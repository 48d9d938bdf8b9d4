"""Events to events for streamed interactions. The terminal event is interaction.completed."""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.decoding import StreamDecoder
from dragoman.adapter.framing import Frame, SseDecoder
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
from dragoman_google import errors
from dragoman_google.interactions import decode
from dragoman_google.parts import RAW_INPUT

_DONE = b"[DONE]"
_MEDIA = ("image", "audio", "video", "document")


class InteractionDecoder(StreamDecoder):
    """Gathers the interaction that the stream describes, and emits an event for each change."""

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, SseDecoder(context.frame_cap, context.body_cap))
        self._reply = Reply(context, provider)
        self._model = context.model
        self._native: dict[str, Any] = {}
        self._steps: dict[int, dict[str, Any]] = {}
        self._blocks: dict[tuple[int, int], int] = {}
        self._pieces: dict[int, list[str]] = {}

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        if frame.data.strip() == _DONE:
            return ()
        data = wirejson.loads_object(frame.data, what="a stream event")
        match data.get("event_type"):
            case "step.delta":
                return self._delta(data["index"], data["delta"])
            case "step.start":
                return self._start(data["index"], data["step"])
            case "step.stop":
                return self._stop(data["index"])
            case "interaction.created":
                return self._created(data["interaction"])
            case "interaction.completed":
                return self._completed(data["interaction"])
            case "interaction.status_update":
                return ()
            case "error":
                raise errors.from_event(data, self.provider, self._model)
            case None if "error" in data:
                raise errors.from_event(data, self.provider, self._model)
            case kind:
                return self.unknown(str(kind))

    def partial(self, status: MessageStatus) -> Message | None:
        return decode.message(self._gathered(), self._reply, status) if self._native else None

    def _created(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        self._native = dict(native)
        yield MessageStart(self._reply.message_id, native.get("model") or native.get("agent") or self._model)

    def _completed(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        if not self._native:
            yield from self._created(native)
        if native.get("error"):
            raise errors.from_event(native, self.provider, self._model)
        self._native |= {key: value for key, value in native.items() if key != "steps" or not self._steps}
        message = decode.message(self._gathered(), self._reply)
        if message.usage is not None:
            yield UsageUpdate(self._reply.message_id, message.usage)
        yield MessageComplete(message)

    def _start(self, index: int, native: dict[str, Any]) -> Iterator[StreamEvent]:
        if index != len(self._steps):
            raise ValueError(f"step {index} starts where {len(self._steps)} was due")
        self._steps[index] = step = dict(native)
        match step["type"]:
            case "function_call":
                call = self._reply.call_id(self._place(index), step.get("id"))
                yield ToolUseStart(self._reply.message_id, self._block(index), call, step["name"])
            case "model_output":
                step["content"] = list(step.get("content") or ())
                for position, content in enumerate(step["content"]):
                    yield from self._told(index, position, content)
            case "user_input" | "function_result":
                pass
            case _:
                self._block(index)

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterable[StreamEvent]:
        step = self._steps[index]
        match delta["type"]:
            case "text" if step["type"] == "model_output":
                return self._text(index, step, delta["text"])
            case "thought_summary":
                return self._summary(index, step, delta["content"])
            case "thought_signature":
                step["signature"] = delta["signature"] or step.get("signature") or ""
                signature = delta["signature"] or None
                return (ThinkingDelta(self._reply.message_id, self._block(index), "", signature),) if signature else ()
            case "arguments_delta":
                return self._arguments(index, step, delta.get("arguments") or "")
            case "text_annotation_delta":
                step["content"][-1].setdefault("annotations", []).extend(delta.get("annotations") or ())
                return ()
            case kind if kind in _MEDIA:
                step["content"].append(dict(delta))
                self._block(index, len(step["content"]) - 1)
                return ()
            case kind if kind == step["type"]:
                step |= {key: value for key, value in delta.items() if key != "type"}
                return ()
            case kind:
                return self.unknown(f"delta {kind}")

    def _text(self, index: int, step: dict[str, Any], text: str) -> Iterator[StreamEvent]:
        content = step["content"]
        if not content or content[-1]["type"] != "text":
            content.append({"type": "text", "text": ""})
        self._pieces.setdefault(index, [])
        content[-1].setdefault("pieces", []).append(text)
        yield TextDelta(self._reply.message_id, self._block(index, len(content) - 1), text)

    def _summary(self, index: int, step: dict[str, Any], content: dict[str, Any]) -> Iterator[StreamEvent]:
        step.setdefault("summary", []).append(content)
        if content.get("type") == "text":
            yield ThinkingDelta(self._reply.message_id, self._block(index), content["text"])

    def _arguments(self, index: int, step: dict[str, Any], fragment: str) -> Iterator[StreamEvent]:
        self._pieces.setdefault(index, []).append(fragment)
        if fragment:
            call = self._reply.call_id(self._place(index), step.get("id"))
            yield ToolUseInputDelta(self._reply.message_id, self._block(index), call, fragment)

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        step = self._steps[index]
        self._settle(index, step, stopped=True)
        if step["type"] == "function_call" and RAW_INPUT not in step:
            call = self._reply.call_id(self._place(index), step.get("id"))
            yield ToolUseEnd(self._reply.message_id, self._block(index), call, step["arguments"])

    def _settle(self, index: int, step: dict[str, Any], *, stopped: bool) -> None:
        """Joins what the deltas brought. Arguments that are cut off or malformed stay text and run nothing."""
        for content in step.get("content") or ():
            if "pieces" in content:
                content["text"] += "".join(content.pop("pieces"))
        if step["type"] != "function_call" or RAW_INPUT in step:
            return
        joined = "".join(self._pieces.pop(index, ()))
        if joined:
            step["arguments"], raw = wirejson.parse_arguments(joined)
            if raw is not None or not stopped:
                step["arguments"], step[RAW_INPUT] = {}, joined
        step.setdefault("arguments", {})

    def _told(self, index: int, position: int, content: dict[str, Any]) -> Iterator[StreamEvent]:
        block = self._block(index, position)
        if content["type"] == "text" and content["text"]:
            yield TextDelta(self._reply.message_id, block, content["text"])

    def _block(self, index: int, position: int = 0) -> int:
        """The index of the block that a step, or one of its contents, becomes."""
        return self._blocks.setdefault((index, position), len(self._blocks))

    def _place(self, index: int) -> int:
        """The position of a step among those of the model's."""
        return sum(self._steps[each]["type"] not in ("user_input", "function_result") for each in range(index))

    def _gathered(self) -> dict[str, Any]:
        """The interaction as far as it came."""
        for index, step in self._steps.items():
            self._settle(index, step, stopped=False)
        steps = {"steps": [self._steps[index] for index in sorted(self._steps)]} if self._steps else {}
        return {**self._native, **steps}
