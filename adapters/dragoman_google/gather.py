"""The reply that the chunks of a stream add up to: parts that go on, counts that replace each other, an end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter import wirejson
from dragoman_google.partial_args import PartialArgs
from dragoman_google.parts import FLAGS, RAW_INPUT, kind
from dragoman_google.spelling import camel

_JOINABLE = ({"text"}, {"text", "thought"})
"""Keys of the parts that go on with each other. One that holds anything more, a signature above all, stands alone."""
_UNSPECIFIED = (None, 0, "", "FINISH_REASON_UNSPECIFIED")
_PENDING = ("executableCode", "toolCall")
"""Google's own tools at work: the reply goes on behind them, whatever finish reason stands beside."""


@dataclass(frozen=True, slots=True)
class Change:
    """One part as it came, and the index of the part of the whole reply that it is, or goes on with."""

    index: int
    part: Mapping[str, Any]
    first: bool


@dataclass(slots=True)
class Draft:
    """One part of the whole reply so far."""

    part: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    arguments: PartialArgs | None = None
    """Set while a call's arguments are still to come, and kept where they never did."""

    told: bool = False
    """Whether the caller was told the end of the call that this is."""

    def finished(self, *, broken: bool) -> dict[str, Any]:
        """The part as if it had come whole. A call that is still open keeps its arguments as text, and in a broken
        stream every call does whose end was not told.
        """
        call = self.part.get("functionCall") or self.part.get("function_call")
        if isinstance(call, dict) and (self.arguments is not None or (broken and not self.told)):
            given = self.arguments.so_far() if self.arguments is not None else call.get("args") or {}
            unfinished = given if isinstance(given, str) else wirejson.dumps_text(given)
            kept = {key: value for key, value in self.part.items() if key != "function_call"}
            named = {key: value for key, value in call.items() if key != "args"}
            return {**kept, "functionCall": {**named, RAW_INPUT: unfinished}}
        return {**self.part, "text": "".join(self.pieces)} if self.pieces else self.part


class Candidate:
    """One of the answers that a stream tells in pieces."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self._fields: dict[str, Any] = {}
        self._content: dict[str, Any] | None = None
        self._reason_stands = False

    def add(self, native: Mapping[str, Any]) -> list[Change]:
        fields = _camelled(native)
        content = fields.pop("content", None)
        # Metadata that is told again replaces what it was; empty, it says nothing.
        self._fields |= {key: value for key, value in fields.items() if value or key not in self._fields}
        changes: list[Change] = []
        if content is not None:
            self._content = {**(self._content or {}), **{key: content[key] for key in content if key != "parts"}}
            changes = [change for part in content.get("parts") or () if (change := self._part(part))]
        if fields.get("finishReason") not in _UNSPECIFIED:
            self._reason_stands = True
        elif changes:
            self._reason_stands = False
        return changes

    @property
    def finished(self) -> bool:
        """Whether the latest content came with, or before, a reason why nothing follows it."""
        return self._reason_stands and not (self.drafts and kind(self.drafts[-1].part) in _PENDING)

    def native(self, *, broken: bool) -> dict[str, Any]:
        said = {} if self._content is None else {"content": self._content}
        if self.drafts:
            said = {
                "content": {**(self._content or {}), "parts": [draft.finished(broken=broken) for draft in self.drafts]}
            }
        return {**self._fields, **said}

    def _part(self, native: dict[str, Any]) -> Change | None:
        """Adds one part. An empty text without a signature says nothing, and none is kept of it."""
        text = native.get("text")
        if isinstance(text, str) and native.keys() in _JOINABLE:
            if not text:
                return None
            last = self.drafts[-1] if self.drafts else None
            if last is not None and last.pieces and bool(last.part.get("thought")) == bool(native.get("thought")):
                last.pieces.append(text)
                return Change(len(self.drafts) - 1, native, first=False)
            self.drafts.append(Draft(native, [text]))
        elif "functionCall" in native or "function_call" in native:
            return self._call(native)
        else:
            self.drafts.append(Draft(native))
        return Change(len(self.drafts) - 1, native, first=True)

    def _call(self, native: dict[str, Any]) -> Change:
        """A call, or more of the one before: its name comes first, and ``willContinue`` says that more is to come."""
        part: dict[str, Any] = camel(native)[0]
        call: dict[str, Any] = part["functionCall"]
        last = self.drafts[-1] if self.drafts else None
        goes_on = last is not None and last.arguments is not None and not call.get("name")
        if last is None or not goes_on:
            if not (call.get("willContinue") or call.get("partialArgs")):
                self.drafts.append(Draft(native))
                return Change(len(self.drafts) - 1, part, first=True)
            told = {key: value for key, value in call.items() if key not in ("partialArgs", "willContinue", "args")}
            last = Draft({**part, "functionCall": told}, arguments=PartialArgs())
            self.drafts.append(last)
        else:
            last.part |= {key: value for key, value in part.items() if key in FLAGS}
        arguments = last.arguments or PartialArgs()
        if call.get("args"):
            arguments.extend(call["args"])
        for value in call.get("partialArgs") or ():
            arguments.add(value)
        if not call.get("willContinue"):
            last.part["functionCall"]["args"] = arguments.so_far()
            last.arguments = None
        return Change(len(self.drafts) - 1, part, first=not goes_on)


class Gatherer:
    """All of a reply. Candidates but the first are gathered as well, though no one hears of them before the end."""

    def __init__(self) -> None:
        self.candidates: dict[int, Candidate] = {}
        self._top: dict[str, Any] = {}

    def add(self, chunk: Mapping[str, Any]) -> list[Change]:
        """Takes one chunk, and gives what is new in the first candidate."""
        top = _camelled(chunk)
        candidates = top.pop("candidates", None) or ()
        counted = top.pop("usageMetadata", None) or {}
        # Counts are cumulative. A chunk without any, as Vertex AI sends them, takes none away.
        if "totalTokenCount" in counted or "promptTokenCount" in counted:
            self._top["usageMetadata"] = counted
        elif counted:
            self._top["usageMetadata"] = {**self._top.get("usageMetadata", {}), **counted}
        self._top |= top
        changes: list[Change] = []
        for position, native in enumerate(candidates):
            index = native.get("index", position)
            told = self.candidates.setdefault(index, Candidate()).add(native)
            if index == 0:
                changes += told
        return changes

    @property
    def blocked(self) -> bool:
        """Whether the prompt was refused, so that there is no candidate to come."""
        feedback = self._top.get("promptFeedback") or {}
        return not self.candidates and ("blockReason" in feedback or "block_reason" in feedback)

    @property
    def finished(self) -> bool:
        every = self.candidates.values()
        return self.blocked or (bool(every) and all(candidate.finished for candidate in every))

    def reply(self, *, broken: bool = False) -> dict[str, Any]:
        """The reply object as far as it came."""
        told = [self.candidates[index].native(broken=broken) for index in sorted(self.candidates)]
        return {**self._top, **({"candidates": told} if told else {})}


def _camelled(native: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object in camelCase. Parts keep their spelling: they go back as they came."""
    if not any("_" in key for key in native):
        return dict(native)
    kept = {key: native[key] for key in ("candidates", "content") if key in native}
    found: dict[str, Any] = camel({key: value for key, value in native.items() if key not in kept})[0]
    return found | kept
