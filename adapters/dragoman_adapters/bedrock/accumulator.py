"""Accumulates the content blocks of a streamed message."""

import base64
from typing import Any

from dragoman.adapter import wirejson
from dragoman_adapters.bedrock import decode

Native = dict[str, Any]

_STARTED_KINDS = ("toolUse", "toolResult", "image")
"""Kinds of blocks that have a start; the others show only in their deltas."""


class BlockAccumulator:
    """Accumulates a content block, whose type shows only in its deltas."""

    __slots__ = ("citations", "ended", "image", "kind", "parts", "redacted", "signatures", "start", "texts")

    def __init__(self) -> None:
        self.start: Native = {}
        self.kind = ""
        self.texts: list[str] = []
        self.signatures: list[str] = []
        self.redacted: list[str] = []
        self.citations: list[Native] = []
        self.parts: list[Native] = []
        self.image: Native = {}
        self.ended = False

    def require_kind(self, kind: str) -> None:
        """Raise ValueError if the block is of another kind, or if blocks of this kind need a start event."""
        if kind != (self.kind or ("" if kind in _STARTED_KINDS else kind)):
            raise ValueError(f"{kind} in a content block of another kind")
        self.kind = kind

    @property
    def call(self) -> Native | None:
        """Return the start event of a call that the caller answers."""
        call: Native | None = self.start.get("toolUse")
        return call if call is not None and decode.is_call(self.start) else None

    def native(self) -> Native:
        """Return the block as in a whole reply; truncated or malformed input of a call stays text."""
        text = "".join(self.texts)
        if self.kind == "toolUse":
            arguments, malformed = wirejson.parse_arguments(text)
            is_complete = self.ended and malformed is None
            return {"toolUse": {**self.start["toolUse"], "input": arguments if is_complete else text}}
        if self.kind == "toolResult":
            return {"toolResult": {**self.start["toolResult"], "content": self.parts}}
        if self.kind == "image":
            return {"image": {**self.start["image"], **self.image}}
        if self.kind == "reasoningContent":
            return {"reasoningContent": self._reasoning_content(text)}
        if self.citations:
            cited: Native = {"citations": self.citations}
            return {"citationsContent": {"content": [{"text": text}], **cited} if text else cited}
        return self.start or {"text": text}

    def _reasoning_content(self, text: str) -> Native:
        if self.redacted:
            return {"redactedContent": _join_base64(self.redacted)}
        signature = "".join(self.signatures)
        return {"reasoningText": {"text": text, **({"signature": signature} if signature else {})}}


def _join_base64(pieces: list[str]) -> str:
    """Join base64 pieces, each of which is complete."""
    if len(pieces) == 1:
        return pieces[0]
    return base64.b64encode(b"".join(base64.b64decode(piece) for piece in pieces)).decode()
