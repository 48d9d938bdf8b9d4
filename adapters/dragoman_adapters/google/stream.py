"""Decodes the stream of streamGenerateContent (docs/reference/wires/google.md): server-sent events, or one JSON array.

Each chunk is a small reply. The last content has a finish reason, but counts may follow it, so only the end of the
bytes and of the array ends the stream.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, JsonArrayDecoder, SseDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder
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
from dragoman_adapters.google import decode, errors
from dragoman_adapters.google.decode_blocks import FLAGS, JOINABLE, RAW_INPUT, part_kind
from dragoman_adapters.google.values.spelling import camel_case_fields, to_camel_case

_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]""")
_VALUES = ("numberValue", "boolValue")


class ArgumentsAccumulator:
    """Builds the arguments from values. Text arrives in pieces, which are joined when the next path begins."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._path: str | None = None
        self._pieces: list[str] = []

    def add(self, native: Mapping[str, Any]) -> None:
        """Add a value. Raises ValueError if its path is invalid or leads nowhere."""
        path = native["jsonPath"]
        if path != self._path:
            self._close_place()
        if isinstance(native.get("stringValue"), str):
            self._path = path
            self._pieces.append(native["stringValue"])
        elif "nullValue" in native:
            self._set(path, None)
        for name in _VALUES:
            if name in native:
                self._set(path, native[name])

    def extend(self, arguments: Mapping[str, Any]) -> None:
        """Add arguments that arrived whole."""
        self._close_place()
        self._root |= arguments

    def current(self) -> dict[str, Any]:
        """Return the arguments so far."""
        if self._path is not None:
            self._set(self._path, "".join(self._pieces))
        return self._root

    def _close_place(self) -> None:
        """Finish the text at the last path: another path follows."""
        self.current()
        self._path = None
        self._pieces.clear()

    def _set(self, path: str, value: Any) -> None:
        steps = _parse_path(path)
        node: Any = self._root
        for step, following in pairwise(steps):
            node = _descend(node, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        if isinstance(node, list) and isinstance(last, int):
            node[last : last + 1] = [value]  # the next item, or one that is repeated
            if last >= len(node):
                raise ValueError(f"the path {path[:80]!r} leaves items out")
        elif isinstance(node, dict) and isinstance(last, str):
            node[last] = value
        else:
            raise ValueError(f"the path {path[:80]!r} leads through a value")


def _parse_path(path: str) -> list[str | int]:
    """Split a path such as ``$.recipe.steps[0]`` into names and numbers."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and (found := _STEP.match(path, position)):
        steps.append(int(found["index"]) if found["index"] else found["name"] or found["quoted"])
        position = found.end()
    if not steps or position != len(path):
        raise ValueError(f"{path[:80]!r} is not a path into the arguments")
    return steps


def _descend(node: Any, step: str | int, fresh: Any) -> Any:
    """Return the value at a step, created if it is missing; list items are created in order only."""
    if isinstance(node, list) and isinstance(step, int):
        if step == len(node):
            node.append(fresh)
        return node[step]
    if isinstance(node, dict) and isinstance(step, str):
        return node.setdefault(step, fresh)
    raise ValueError(f"the step {step!r} leads through a value")


_UNSPECIFIED = (None, 0, "", "FINISH_REASON_UNSPECIFIED")
_PENDING_KINDS = ("executableCode", "toolCall")
"""Google's own tools: the reply continues after them, although a finish reason may come with them."""
_STOP = ("STOP", 1)


@dataclass(frozen=True, slots=True)
class PartChange:
    """One part as it arrived, and the index of the part of the whole reply that it begins or continues."""

    index: int
    part: Mapping[str, Any]
    first: bool


@dataclass(slots=True)
class PartAccumulator:
    """One part of the whole reply so far."""

    part: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    arguments: ArgumentsAccumulator | None = None
    """Set while a call's arguments are still arriving; it stays set if they never end."""

    end_sent: bool = False
    """Whether the end of this call was sent to the caller."""

    def to_native(self, *, broken: bool) -> dict[str, Any]:
        """Return the part as in a whole reply. An open call keeps its arguments as text. In a broken stream, so does
        every call whose end was not sent.
        """
        call = self.part.get("functionCall") or self.part.get("function_call")
        if isinstance(call, dict) and (self.arguments is not None or (broken and not self.end_sent)):
            arguments = self.arguments.current() if self.arguments is not None else call.get("args") or {}
            unfinished = arguments if isinstance(arguments, str) else wirejson.dumps_text(arguments)
            kept = {key: value for key, value in self.part.items() if key != "function_call"}
            named = {key: value for key, value in call.items() if key != "args"}
            return {**kept, "functionCall": {**named, RAW_INPUT: unfinished}}
        return {**self.part, "text": "".join(self.pieces)} if self.pieces else self.part


class CandidateAccumulator:
    """Accumulates one candidate of a stream."""

    def __init__(self) -> None:
        self.parts: list[PartAccumulator] = []
        self._fields: dict[str, Any] = {}
        self._content: dict[str, Any] | None = None
        self._has_finish_reason = False

    def add(self, native: Mapping[str, Any]) -> list[PartChange]:
        fields = _to_camel_case(native)
        content = fields.pop("content", None)
        # Repeated metadata replaces the earlier one, unless it is empty.
        self._fields |= {key: value for key, value in fields.items() if value or key not in self._fields}
        changes: list[PartChange] = []
        if content is not None:
            self._content = {**(self._content or {}), **{key: content[key] for key in content if key != "parts"}}
            changes = [change for part in content.get("parts") or () if (change := self._part(part))]
        if fields.get("finishReason") not in _UNSPECIFIED:
            self._has_finish_reason = True
        elif changes:
            self._has_finish_reason = False
        return changes

    @property
    def finished(self) -> bool:
        """Whether a finish reason came with the latest content, or after it.

        A tool of Google's that still runs is not an end, unless the reason says why it does not run any further.
        """
        is_pending = bool(self.parts) and part_kind(to_camel_case(self.parts[-1].part)[0]) in _PENDING_KINDS
        return self._has_finish_reason and not (is_pending and self._fields.get("finishReason") in _STOP)

    def native(self, *, broken: bool) -> dict[str, Any]:
        content = {} if self._content is None else {"content": self._content}
        if self.parts:
            content = {
                "content": {**(self._content or {}), "parts": [part.to_native(broken=broken) for part in self.parts]}
            }
        return {**self._fields, **content}

    def _part(self, native: dict[str, Any]) -> PartChange | None:
        """Add one part. An empty text without a signature is dropped."""
        text = native.get("text")
        if isinstance(text, str) and native.keys() in JOINABLE:
            if not text:
                return None
            last = self.parts[-1] if self.parts else None
            if last is not None and last.pieces and bool(last.part.get("thought")) == bool(native.get("thought")):
                last.pieces.append(text)
                return PartChange(len(self.parts) - 1, native, first=False)
            self.parts.append(PartAccumulator(native, [text]))
        elif "functionCall" in native or "function_call" in native:
            return self._call(native)
        else:
            self.parts.append(PartAccumulator(native))
        return PartChange(len(self.parts) - 1, native, first=True)

    def _call(self, native: dict[str, Any]) -> PartChange:
        """Add a call, or continue the last one. The name comes first; ``willContinue`` announces more arguments."""
        part: dict[str, Any] = to_camel_case(native)[0]
        call: dict[str, Any] = part["functionCall"]
        last = self.parts[-1] if self.parts else None
        continues = last is not None and last.arguments is not None and not call.get("name")
        if last is None or not continues:
            if not (call.get("willContinue") or call.get("partialArgs")):
                self.parts.append(PartAccumulator(native))
                return PartChange(len(self.parts) - 1, part, first=True)
            fields = {key: value for key, value in call.items() if key not in ("partialArgs", "willContinue", "args")}
            last = PartAccumulator({**part, "functionCall": fields}, arguments=ArgumentsAccumulator())
            self.parts.append(last)
        else:
            last.part |= {key: value for key, value in part.items() if key in FLAGS}
        arguments = last.arguments or ArgumentsAccumulator()
        if call.get("args"):
            arguments.extend(call["args"])
        for value in call.get("partialArgs") or ():
            arguments.add(value)
        if not call.get("willContinue"):
            last.part["functionCall"]["args"] = arguments.current()
            last.arguments = None
        return PartChange(len(self.parts) - 1, part, first=not continues)


def _to_camel_case(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's fields in camelCase. Parts keep their spelling, because they go back unchanged."""
    if not any("_" in key for key in native):
        return dict(native)
    kept = {key: native[key] for key in ("candidates", "content") if key in native}
    return camel_case_fields(native, without=kept) | kept


_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class ReplyFrameDecoder:
    """Splits server-sent events, or a JSON array if the first byte that is not blank begins a JSON value."""

    def __init__(self, frame_cap: int, body_cap: int) -> None:
        self._frame_cap = frame_cap
        self._body_cap = body_cap
        self._head = bytearray()
        self._chosen: SseDecoder | JsonArrayDecoder | None = None

    @property
    def closed(self) -> bool:
        """False while an array has not ended."""
        return not isinstance(self._chosen, JsonArrayDecoder) or self._chosen.closed

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._chosen is not None:
            return self._chosen.feed(chunk)
        self._head += chunk
        if len(self._head) > self._frame_cap:
            raise FrameTooLargeError(f"the reply begins with over {self._frame_cap} blanks")
        head = bytes(self._head) if chunk.strip() else b""
        content = b"" if _BOM.startswith(head) else head.removeprefix(_BOM).lstrip()
        if not content:
            return []
        self._chosen = (JsonArrayDecoder if content[:1] in (b"[", b"{") else SseDecoder)(
            self._frame_cap, self._body_cap
        )
        return self._chosen.feed(head)

    def finish(self) -> list[Frame]:
        return self._chosen.finish() if self._chosen is not None else []


class GoogleStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the stream and emits an event for each change.

    Other candidates than the first emit no events; they show at the end.
    """

    framing = ReplyFrameDecoder

    def __init__(self, provider: str, context: RequestContext, facts: Mapping[str, Any]) -> None:
        super().__init__(provider, context)
        self._facts = facts
        self._candidates: dict[int, CandidateAccumulator] = {}
        self._started = False

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        if frame.data == _DONE:  # some proxies end every stream with OpenAI's marker
            return
        chunk = wirejson.loads_object(frame.data, what="a stream chunk")
        if "error" in chunk:
            raise errors.decode_error(chunk, ErrorContext(self.provider, self._model))
        fields = _to_camel_case(chunk)
        candidates = fields.pop("candidates", None) or ()
        usage = fields.pop("usageMetadata", None) or {}
        # Counts are cumulative. A chunk without counts, which Vertex AI sends, keeps the last ones.
        if "totalTokenCount" in usage or "promptTokenCount" in usage:
            self._native["usageMetadata"] = usage
        elif usage:
            self._native["usageMetadata"] = {**self._native.get("usageMetadata", {}), **usage}
        self._native |= fields
        changes: list[PartChange] = []
        for position, native in enumerate(candidates):
            index = native.get("index", position)
            changed = self._candidates.setdefault(index, CandidateAccumulator()).add(native)
            if index == 0:
                changes += changed
        if not self._started:
            self._started = True
            served = chunk.get("modelVersion") or chunk.get("model_version")
            yield MessageStart(self._reply.message_id, served or self._model)
        for change in changes:
            yield from self._change(change)

    def end(self) -> Iterator[StreamEvent]:
        """Complete the reply if it has a finish reason and nothing is open; the wire has no other end marker."""
        assert isinstance(self._framing, ReplyFrameDecoder)
        feedback = self._native.get("promptFeedback") or {}
        # If the prompt was refused, there is no candidate.
        finished = any(name in feedback for name in ("blockReason", "block_reason"))
        if self._candidates:
            finished = all(candidate.finished for candidate in self._candidates.values())
        if not (finished and self._framing.closed):
            yield from super().end()  # which raises
        message = self.decode_message(self.accumulated_reply(), self._reply, MessageStatus.COMPLETE)
        if message.usage is not None:
            yield UsageUpdate(self._reply.message_id, message.usage)
        yield MessageComplete(message)

    def partial(self, status: MessageStatus) -> Message | None:
        if not self._started:
            return None
        return self.decode_message(self.accumulated_reply(broken=True), self._reply, status)

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus) -> Message:
        return decode.decode_message(native, reply, self._facts, status)

    def accumulated_reply(self, *, broken: bool = False) -> dict[str, Any]:
        natives = [self._candidates[index].native(broken=broken) for index in sorted(self._candidates)]
        return {**self._native, **({"candidates": natives} if natives else {})}

    def _change(self, change: PartChange) -> Iterator[StreamEvent]:
        part, message_id = change.part, self._reply.message_id
        if "functionCall" in part or "function_call" in part:
            yield from self._call(change)
        elif part.get("thought"):
            signature = part.get("thoughtSignature") or part.get("thought_signature") or None
            if isinstance(part.get("text", ""), str) and ("text" in part or signature):
                yield ThinkingDelta(message_id, change.index, part.get("text", ""), signature)
        elif part.get("text"):
            yield TextDelta(message_id, change.index, part["text"])

    def _call(self, change: PartChange) -> Iterator[StreamEvent]:
        """Yield the events of a call. Arguments that arrive value by value are not JSON fragments: they are sent when
        complete.
        """
        accumulator = self._candidates[0].parts[change.index]
        call = accumulator.part.get("functionCall") or accumulator.part.get("function_call") or {}
        if not isinstance(call.get("name"), str):
            return
        message_id, index = self._reply.message_id, change.index
        tool_use_id = self._reply.call_id(index, call.get("id"))
        if change.first:
            signature = change.part.get("thoughtSignature") or change.part.get("thought_signature") or None
            yield ToolUseStart(message_id, index, tool_use_id, call["name"], signature)
        if accumulator.arguments is not None:
            return
        arguments = call.get("args") or {}
        text = arguments if isinstance(arguments, str) else wirejson.dumps_text(arguments)
        parsed, malformed = wirejson.parse_arguments(text)
        yield ToolUseInputDelta(message_id, index, tool_use_id, text)
        if malformed is None:
            accumulator.end_sent = True
            yield ToolUseEnd(message_id, index, tool_use_id, parsed)
