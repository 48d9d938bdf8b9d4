"""Typed reasoning details, which routers send in addition to plain text (docs/reference/wires/openai-chat.md).

A detail is a text with its signature, a summary, or data that only the upstream model can read. Details go back
unchanged and in order, to models of the same family; the note of a block holds what the block does not.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import ContentBlock, ProviderBlock, RedactedThinkingBlock, ThinkingBlock

DETAILS_FIELD = "reasoning_details"

TEXT, SUMMARY, ENCRYPTED = "reasoning.text", "reasoning.summary", "reasoning.encrypted"

_CONTENT = {TEXT: "text", SUMMARY: "summary"}


def detail_text(native: Mapping[str, Any]) -> str:
    """Return the readable text of a detail; empty if it is encrypted or unknown."""
    return native.get(_CONTENT.get(native["type"], "")) or ""


def decode_detail(native: dict[str, Any], provider: str) -> tuple[ContentBlock, dict[str, Any]]:
    """Decode a detail to a block and its note."""
    note = {"field": DETAILS_FIELD}
    match native["type"]:
        case "reasoning.text":
            return ThinkingBlock(text=detail_text(native), signature=native.get("signature") or None), note
        case "reasoning.summary":
            return ThinkingBlock(text=detail_text(native)), {**note, "kind": SUMMARY}
        case "reasoning.encrypted" if isinstance(native.get("data"), str):
            return RedactedThinkingBlock(data=native["data"]), note
        case kind:
            return ProviderBlock(provider=provider, kind=kind, data=native), note


def encode_detail(content: ThinkingBlock | RedactedThinkingBlock, note: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a block as a detail."""
    if isinstance(content, RedactedThinkingBlock):
        return {"type": ENCRYPTED, "data": content.data}
    if note.get("kind") == SUMMARY:
        return {"type": SUMMARY, "summary": content.text}
    return {"type": TEXT, "text": content.text} | ({"signature": content.signature} if content.signature else {})


class DetailAccumulator:
    """Accumulates a detail: its text arrives in fragments, its signature after them."""

    def __init__(self, native: Mapping[str, Any]) -> None:
        self._native: dict[str, Any] = {}
        self._fragments: list[str] = []
        self.add(native)

    def is_continued_by(self, native: Mapping[str, Any]) -> bool:
        """Whether a fragment continues this detail: text of the same type and index, until it is signed."""
        same = all(native.get(key) == self._native.get(key) for key in ("type", "index"))
        return same and native["type"] in _CONTENT and not (self._native.get("signature") and detail_text(native))

    def add(self, native: Mapping[str, Any]) -> None:
        self._fragments.append(detail_text(native))
        self._native |= {key: value for key, value in native.items() if value is not None}

    def piece(self) -> tuple[str, dict[str, Any]]:
        if content := _CONTENT.get(self._native["type"]):
            return DETAILS_FIELD, {**self._native, content: "".join(self._fragments)}
        return DETAILS_FIELD, self._native
