"""Accumulates one output item from its events."""

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.canonical.events import TextDelta, ThinkingDelta, ToolUseEnd, ToolUseInputDelta, ToolUseStart
from dragoman_adapters.openai_responses import encode
from dragoman_adapters.openai_responses.decode_messages import item_kind, join_thinking

BlockEvent = TextDelta | ThinkingDelta | ToolUseStart | ToolUseInputDelta | ToolUseEnd

_TEXT_PARTS = {"content": "output_text", "summary": "summary_text"}
_MAX_PARTS = 1024
"""More parts than any item has: a wrong index must not fill the memory."""


def item_name(native: Mapping[str, Any]) -> str | None:
    """Return the id of an item, or of its call if a dialect sends no other."""
    name = native.get("id") or native.get("call_id")
    return name if isinstance(name, str) else None


class ItemAccumulator:
    """An item's object, the fragments of its deltas, and the events that wait for their turn.

    A fragment belongs to a field and a position in it: ``("content", 1)`` is the second part of a message,
    ``("arguments", 0)`` a call's arguments. ``first_block`` is the index of the item's first block in the message.
    """

    __slots__ = ("call", "closed", "first_block", "fragments", "native", "position", "queue", "shown_field")

    def __init__(self, native: dict[str, Any], position: int, first_block: int) -> None:
        self.native = dict(native)
        self.position = position
        self.first_block = first_block
        self.call = ""
        self.closed = False
        self.shown_field: str | None = None
        """The field of a reasoning item that is emitted: the first one with a delta."""
        self.fragments: dict[tuple[str, int], list[str]] = {}
        self.queue: list[BlockEvent] = []

    @property
    def name(self) -> str | None:
        return item_name(self.native)

    @property
    def kind(self) -> str:
        return item_kind(self.native)

    @property
    def blocks_later(self) -> bool:
        """Whether later items wait for this one: a call ends before the next item begins."""
        return not self.closed and self.kind == "function_call"

    @property
    def blocks(self) -> int:
        """The number of blocks that the item becomes, as far as is known."""
        return max(1, len(self.native.get("content") or ())) if self.kind == "message" else 1

    def add(self, field: str, position: int, text: str) -> None:
        """Add a fragment. Fragments are joined at the end: appending to a string would copy it for every delta."""
        if not isinstance(text, str):
            raise TypeError(f"a delta of an item's {field} is not text")
        if self.closed:
            raise ValueError(f"an item's {field} continues after the item's end")
        self.fragments.setdefault((field, position), []).append(text)

    def part(self, field: str, position: int, native: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the part at a position of ``content`` or ``summary``; missing parts are created."""
        if not 0 <= position < _MAX_PARTS:
            raise ValueError(f"part {position} of an item's {field}")
        if not isinstance(self.native.get(field), list):
            self.native[field] = []
        found: list[dict[str, Any]] = self.native[field]
        text_part = "reasoning_text" if self.kind == "reasoning" and field == "content" else _TEXT_PARTS[field]
        while len(found) <= position:
            found.append({"type": text_part, "text": ""})
        if native is not None:
            found[position] = dict(native)
        return found[position]

    def sent_texts(self) -> list[str]:
        """Return the text of each block of the item that its deltas sent."""
        if self.kind == "message":
            return ["".join(self.fragments.get(("content", index), ())) for index in range(self.blocks)]
        if self.kind == "reasoning":
            texts = ["".join(pieces) for (field, _), pieces in self.fragments.items() if field == self.shown_field]
            return [encode.SEPARATOR.join(texts)]
        return ["".join(self.fragments.get(("arguments", 0), ()))]

    def close(self, native: dict[str, Any]) -> list[str]:
        """Store the finished object. Returns the text of each block that its deltas did not send."""
        texts = self.sent_texts()
        self.native, self.closed = dict(native), True
        self.fragments.clear()
        return [
            full[len(sent) :] if full.startswith(sent) else ""
            for full, sent in zip(_iter_texts(native), [*texts, *[""] * self.blocks], strict=False)
        ]

    def to_native(self, *, cut: bool = False) -> dict[str, Any]:
        """Return the item's object so far. With ``cut``, a call is incomplete if it is open or its events still wait.

        Encrypted reasoning of an open item is left out: it may be incomplete.
        """
        native = dict(self.native)
        if not self.closed and self.kind == "reasoning":
            native.pop("encrypted_content", None)
        for (field, position), pieces in self.fragments.items():
            joined = "".join(pieces)
            if field in _TEXT_PARTS:
                parts = list(native[field])
                key = "refusal" if parts[position].get("type") == "refusal" else "text"
                parts[position] = {**parts[position], key: joined}
                native[field] = parts
            else:
                native[field] = joined
        if cut and self.kind == "function_call" and not (self.closed and not self.queue):
            native["status"] = "incomplete"
        return native


def _iter_texts(native: dict[str, Any]) -> Iterator[str]:
    """Yield the text of each block that an item becomes; empty for blocks without text."""
    match item_kind(native):
        case "message":
            for part in native.get("content") or ():
                text = part.get("text", part.get("refusal"))
                yield text if isinstance(text, str) else ""
        case "reasoning":
            yield join_thinking(native)
        case "function_call":
            yield native["arguments"]
        case _:
            yield ""
