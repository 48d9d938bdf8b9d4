"""Accumulates the reply of a stream: parts that continue, counts that replace each other, and the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter import wirejson
from dragoman_adapters.google.decode_blocks import FLAGS, JOINABLE, RAW_INPUT, part_kind
from dragoman_adapters.google.values.partial_args import ArgumentsAccumulator
from dragoman_adapters.google.values.spelling import to_camel_case

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


class ReplyAccumulator:
    """Accumulates a whole reply. Other candidates than the first emit no events; they show at the end."""

    def __init__(self) -> None:
        self.candidates: dict[int, CandidateAccumulator] = {}
        self._top: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> list[PartChange]:
        """Add a chunk. Returns what is new in the first candidate."""
        top = _to_camel_case(chunk)
        candidates = top.pop("candidates", None) or ()
        usage = top.pop("usageMetadata", None) or {}
        # Counts are cumulative. A chunk without counts, which Vertex AI sends, keeps the last ones.
        if "totalTokenCount" in usage or "promptTokenCount" in usage:
            self._top["usageMetadata"] = usage
        elif usage:
            self._top["usageMetadata"] = {**self._top.get("usageMetadata", {}), **usage}
        self._top |= top
        changes: list[PartChange] = []
        for position, native in enumerate(candidates):
            index = native.get("index", position)
            changed = self.candidates.setdefault(index, CandidateAccumulator()).add(native)
            if index == 0:
                changes += changed
        return changes

    @property
    def blocked(self) -> bool:
        """Whether the prompt was refused: no candidate will follow."""
        feedback = self._top.get("promptFeedback") or {}
        return not self.candidates and ("blockReason" in feedback or "block_reason" in feedback)

    @property
    def finished(self) -> bool:
        every = self.candidates.values()
        return self.blocked or (bool(every) and all(candidate.finished for candidate in every))

    def reply(self, *, broken: bool = False) -> dict[str, Any]:
        """Return the reply object so far."""
        natives = [self.candidates[index].native(broken=broken) for index in sorted(self.candidates)]
        return {**self._top, **({"candidates": natives} if natives else {})}


def _to_camel_case(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's fields in camelCase. Parts keep their spelling, because they go back unchanged."""
    if not any("_" in key for key in native):
        return dict(native)
    kept = {key: native[key] for key in ("candidates", "content") if key in native}
    found: dict[str, Any] = to_camel_case({key: value for key, value in native.items() if key not in kept})[0]
    return found | kept
