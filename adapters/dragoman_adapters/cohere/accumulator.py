"""Accumulates the pieces of a streamed message."""

from typing import Any

from dragoman_adapters.cohere.encode import Piece


class PieceAccumulator:
    """Accumulates a piece of the message: a content part, the plan or a call."""

    __slots__ = ("ended", "field", "fragments", "native")

    def __init__(self, field: str, native: dict[str, Any]) -> None:
        self.field = field
        self.native = native
        self.fragments: list[str] = []
        self.ended = False

    def piece(self) -> Piece:
        joined = "".join(self.fragments)
        if self.field == "tool_plan":
            return self.field, joined
        if self.field == "tool_calls":
            function = {**(self.native.get("function") or {}), "arguments": joined}
            return self.field, {**self.native, "function": function}
        kind = self.native.get("type")
        return self.field, {**self.native, kind: joined} if kind in ("text", "thinking") else self.native
