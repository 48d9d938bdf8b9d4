"""Decodes streamed interactions (https://ai.google.dev/gemini-api/docs/interactions/streaming).

The terminal event is interaction.completed. It has the whole interaction except its steps: each step was streamed
before, with a start, deltas and a stop.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame
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
from dragoman_adapters.google.decode_blocks import RAW_INPUT
from dragoman_adapters.google_interactions import decode, errors


class StepAccumulator:
    """A step's object, and the pieces of its deltas, which are joined when they are needed.

    ``position`` is its position among the model's steps, ``first_block`` the index of its first block in the message.
    """

    __slots__ = (
        "_arguments", "_texts", "call", "first_block", "is_call", "is_output", "is_repeated", "kind", "native",
        "position", "stopped",
    )  # fmt: skip

    def __init__(self, native: dict[str, Any], position: int, first_block: int) -> None:
        self.native = dict(native)
        if native.get("content"):
            self.native["content"] = [dict(each) for each in native["content"]]
        self.kind: str = native["type"]
        self.is_call = self.kind == "function_call"
        self.is_output = self.kind == "model_output"
        self.is_repeated = self.kind in decode.INPUT_STEPS
        self.position = position
        self.first_block = first_block
        self.call = ""
        """The canonical id, if the step is a call."""
        self.stopped = False
        self._texts: dict[int, list[str]] = {}
        self._arguments: list[str] = []

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents of a model_output so far."""
        found: list[dict[str, Any]] = self.native.get("content") or []
        return found

    def add_text(self, text: str) -> None:
        """Add a piece of the last content. Appending to a string would copy it for every delta."""
        self._texts.setdefault(len(self.contents) - 1, []).append(_require_text(text))

    def add_arguments(self, text: str) -> None:
        self._arguments.append(_require_text(text))

    def stop(self) -> None:
        """Finish the step: its object does not change any more."""
        self.stopped = True
        self.native = self.to_native()
        self._texts.clear()
        self._arguments.clear()

    def to_native(self) -> dict[str, Any]:
        """Return the step's object so far. Truncated or malformed arguments stay text, so that no tool runs with
        them."""
        native = dict(self.native)
        if self._texts:
            native["content"] = [
                {**each, "text": each.get("text", "") + "".join(self._texts.get(position, ()))}
                if position in self._texts
                else each
                for position, each in enumerate(self.contents)
            ]
        joined = "".join(self._arguments)
        if self.is_call and not self.stopped:
            arguments = native.get("arguments")
            native |= {"arguments": {}, RAW_INPUT: joined or (wirejson.dumps_text(arguments) if arguments else "")}
        elif joined.strip():
            native["arguments"], malformed = wirejson.parse_arguments(joined)
            if malformed is not None:
                native[RAW_INPUT] = malformed
        return native


def _require_text(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError("a delta of a step is not text")
    return text


_DONE = b"[DONE]"
_MEDIA = ("image", "audio", "video", "document")


class InteractionsStreamDecoder(AccumulatingDecoder):
    """Accumulates the interaction and emits an event for each change."""

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._started = False
        self._steps: list[StepAccumulator] = []

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        if frame.data.strip() == _DONE:
            return ()
        data = wirejson.loads_object(frame.data, what="a stream event")
        metadata = data.get("metadata")
        usage = metadata.get("usage") or metadata.get("total_usage") if isinstance(metadata, dict) else None
        return self._with_usage(self._decode_event(data), usage) if usage else self._decode_event(data)

    def _decode_event(self, data: dict[str, Any]) -> Iterable[StreamEvent]:
        match data.get("event_type"):
            case "step.delta":
                return self._delta(self._open_step(data["index"]), data["delta"])
            case "step.start":
                return self._start(data["index"], data["step"])
            case "step.stop":
                return self._stop(self._open_step(data["index"]))
            case "interaction.created":
                return self._begin(data["interaction"])
            case "interaction.completed":
                return self._complete(data["interaction"])
            case "interaction.status_update":
                return ()
            case "error":
                raise errors.decode_error(data, ErrorContext(self.provider, self._model))
            case None if "error" in data:
                raise errors.decode_error(data, ErrorContext(self.provider, self._model))
            case kind:
                return self.skip_unknown(str(kind))

    def partial(self, status: MessageStatus) -> Message | None:
        return self.decode_message(self.accumulated_reply(), self._reply, status) if self._started else None

    decode_message = staticmethod(decode.decode_message)

    def _begin(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        """Store what is known apart from the steps. Yields the start event, once."""
        known = self._native.get("id")
        if known and native.get("id", known) != known:
            raise ValueError("a second interaction starts in one stream")
        self._native |= {key: value for key, value in native.items() if key != "steps"}
        if not self._started:
            self._started = True
            yield MessageStart(self._reply.message_id, native.get("model") or native.get("agent") or self._model)

    def _with_usage(self, events: Iterable[StreamEvent], native: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the events, and the usage so far, which any event may carry."""
        yield from events
        if self._started and (usage := decode.decode_usage(native, None)) is not None:
            self._native["usage"] = native
            yield UsageUpdate(self._reply.message_id, usage)

    def _start(self, index: int, native: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from self._begin({})
        if index != len(self._steps):
            raise ValueError(f"step {index} starts, but {len(self._steps)} was expected")
        position = first_block = 0
        if self._steps:
            last = self._steps[-1]
            position = last.position + (not last.is_repeated)
            # An output becomes a block for each of its contents, any other step of the model one.
            first_block = last.first_block + (len(last.contents) if last.is_output else not last.is_repeated)
        step = StepAccumulator(native, position, first_block)
        if step.is_call:
            step.call = self._reply.call_id(position, native.get("id"))
            yield ToolUseStart(self._reply.message_id, step.first_block, step.call, native["name"])
        self._steps.append(step)
        if step.is_output:
            for block, content in enumerate(step.contents, step.first_block):
                if content["type"] == "text" and content["text"]:
                    yield TextDelta(self._reply.message_id, block, content["text"])
        elif step.kind == "thought":
            thought = decode.decode_thinking(native)
            if thought.text or thought.signature:
                yield ThinkingDelta(self._reply.message_id, step.first_block, thought.text, thought.signature)

    def _open_step(self, index: int) -> StepAccumulator:
        """Return the open step of an event. Raises ValueError if the step has ended or not started: events are missing
        or repeated."""
        if not 0 <= index < len(self._steps) or self._steps[index].stopped:
            raise ValueError(f"step {index} continues, but is not open")
        return self._steps[index]

    def _delta(self, step: StepAccumulator, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        match delta["type"]:
            case _ if step.is_repeated:
                pass
            case "text" if step.is_output:
                self._text_content(step)
                step.add_text(delta["text"])
                last_block = step.first_block + len(step.contents) - 1
                yield TextDelta(self._reply.message_id, last_block, delta["text"])
            case "text_annotation_delta" if step.is_output:
                content = self._text_content(step)
                content["annotations"] = content.get("annotations") or []
                content["annotations"] += delta.get("annotations") or ()
            case kind if kind in _MEDIA and step.is_output:
                self._add_content(step, delta)
            case "thought_summary" if step.kind == "thought":
                yield from self._summary(step, delta.get("content"))
            case "thought_signature":
                yield from self._signature(step, delta.get("signature"))
            case "arguments_delta":
                fragment = delta.get("arguments") or ""
                step.add_arguments(fragment)
                if fragment and step.is_call:
                    yield ToolUseInputDelta(self._reply.message_id, step.first_block, step.call, fragment)
            case kind if kind == step.kind and not step.is_call:
                step.native |= delta
            case kind:
                self.skip_unknown(f"delta {kind} of {step.kind}")

    def _text_content(self, step: StepAccumulator) -> dict[str, Any]:
        """Return the text content that continues: the last content, or a new one after any other."""
        if not step.contents or step.contents[-1]["type"] != "text":
            self._add_content(step, {"type": "text", "text": ""})
        return step.contents[-1]

    def _add_content(self, step: StepAccumulator, native: dict[str, Any]) -> None:
        if step is not self._steps[-1]:
            raise ValueError("a step has one more content, though the next step has begun")
        step.native["content"] = [*step.contents, dict(native)]

    def _summary(self, step: StepAccumulator, content: dict[str, Any] | None) -> Iterator[StreamEvent]:
        if content is None:
            return
        step.native["summary"] = step.native.get("summary") or []
        step.native["summary"].append(content)
        if content.get("type") == "text":
            yield ThinkingDelta(self._reply.message_id, step.first_block, content["text"])

    def _signature(self, step: StepAccumulator, signature: str | None) -> Iterator[StreamEvent]:
        """Add the signature of a thought, a call or a server tool. Empty ones come before the final one."""
        step.native["signature"] = signature or step.native.get("signature") or ""
        if signature and step.kind == "thought":
            yield ThinkingDelta(self._reply.message_id, step.first_block, "", signature)

    def _stop(self, step: StepAccumulator) -> Iterator[StreamEvent]:
        step.stop()
        if step.is_call:
            call = decode.decode_tool_call(step.native, step.call)
            if call.raw_input is None:
                yield ToolUseEnd(self._reply.message_id, step.first_block, step.call, call.input)

    def _complete(self, native: dict[str, Any]) -> Iterator[StreamEvent]:
        if native.get("status") is None:
            self._native.pop("status", None)  # that of the start is in_progress
        yield from self._begin(native)
        if native.get("error"):
            raise errors.decode_error(native, ErrorContext(self.provider, self._model))
        if not self._steps:
            for index, step in enumerate(native.get("steps") or ()):
                yield from self._start(index, step)
                yield from self._stop(self._steps[index])
        # Counts during the stream are partial: without counts at the end, the usage is unknown.
        self._native["usage"] = native.get("usage")
        message = decode.decode_message(self.accumulated_reply(), self._reply)
        if message.usage is not None:
            yield UsageUpdate(self._reply.message_id, message.usage)
        yield MessageComplete(message)

    def accumulated_reply(self) -> dict[str, Any]:
        return {**self._native, "steps": [step.to_native() for step in self._steps]}
