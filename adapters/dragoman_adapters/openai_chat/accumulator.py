"""Accumulates the deltas of a stream: pieces in order of arrival, and other fields by type."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman_adapters.openai_chat.decode_blocks import REFERENCES
from dragoman_adapters.openai_chat.encode import Piece


class FieldAccumulator:
    """Merges fields of deltas: strings are joined, lists extended, other values replaced."""

    def __init__(self) -> None:
        self._values: dict[str, list[Any]] = {}

    def add(self, field: str, value: Any) -> None:
        if value is not None:
            self._values.setdefault(field, []).append(value)

    def fields(self) -> dict[str, Any]:
        joined: dict[str, Any] = {}
        for field, values in self._values.items():
            if all(isinstance(value, str) for value in values):
                joined[field] = "".join(values)
            elif all(isinstance(value, list) for value in values):
                joined[field] = [item for value in values for item in value]
            else:
                joined[field] = values[-1]
        return joined


class TextAccumulator:
    """A piece of text: a content part, the refusal or the reasoning. ``native`` are a part's other fields."""

    __slots__ = ("ended", "field", "fragments", "kind", "native")

    def __init__(self, field: str, kind: str) -> None:
        self.field = field
        self.kind = kind
        self.native: dict[str, Any] = {}
        self.fragments: list[str] = []
        self.ended = False

    def add_reference(self, source: dict[str, Any]) -> None:
        """Add a part that backs the text; text after it starts a new piece."""
        self.native.setdefault(REFERENCES, []).append(source)
        self.ended = True

    def piece(self) -> Piece:
        text = "".join(self.fragments)
        if self.field != "content":
            return self.field, text
        inner: Any = [{"type": "text", "text": text}] if self.kind == "thinking" else text
        return "content", {**self.native, "type": self.kind, self.kind: inner}


class AudioAccumulator:
    """Audio of the model: data and transcript arrive in fragments."""

    def __init__(self) -> None:
        self._fields = FieldAccumulator()
        self._id: str | None = None

    def add(self, delta: Mapping[str, Any]) -> None:
        self._id = self._id or delta.get("id")
        for field, value in delta.items():
            if field != "id":
                self._fields.add(field, value)

    def piece(self) -> Piece:
        return "audio", {"id": self._id, "data": "", **self._fields.fields()}


_MAX_TRIES = 16
"""How often the arguments of one call are parsed before they have ended: each try parses all of them."""


class CallAccumulator:
    """A tool call. Its id and name come once, or with every delta; its arguments come in fragments or whole.

    ``position`` is that among the pieces of the message.
    """

    def __init__(self, field: str, position: int) -> None:
        self.field = field
        self.position = position
        self.id: str | None = None
        self.name = ""
        self.started = False
        self.ended = False
        self.fragments: list[str] = []
        self.pending: list[str] = []
        """Fragments that arrived before the name: the start event of a call needs its name."""
        self._object: dict[str, Any] | None = None
        self._kind = "function"
        self._tries = 0
        self._native = FieldAccumulator()

    @property
    def is_custom(self) -> bool:
        return self._kind == "custom"

    def may_be_complete(self) -> bool:
        """Whether it is worth parsing the arguments: they look complete, and it was not tried too often before."""
        if self._object is not None:
            return True
        if self.is_custom or not self.fragments or not self.fragments[-1].rstrip().endswith("}"):
            return False
        self._tries += 1
        return self._tries <= _MAX_TRIES

    def add(self, delta: Mapping[str, Any]) -> str:
        """Add a delta. Returns its fragment of the arguments."""
        if delta.get("type"):
            self._kind = delta["type"]
        function = delta if self.field == "function_call" else delta.get(self._kind) or delta.get("function") or {}
        self.id = self.id or delta.get("id") or None
        self.name = self.name or function.get("name") or ""
        for field, value in delta.items():
            if self.field == "tool_calls" and field not in ("index", "id", "type", "function", "custom"):
                self._native.add(field, value)
        arguments = function.get("input" if self.is_custom else "arguments")
        if arguments and self.ended:
            raise ValueError("arguments arrived for a call that had ended")
        if isinstance(arguments, dict):  # some servers send the object itself
            self._object = arguments
            return wirejson.dumps_text(arguments)
        if arguments:
            self.fragments.append(arguments)
        return arguments or ""

    def is_continued_by(self, delta: Mapping[str, Any]) -> bool:
        """Whether a delta continues this call: a name with another id, or a second name without an index, does not."""
        function = delta if self.field == "function_call" else delta.get("function") or delta.get("custom") or {}
        if not function.get("name"):
            return True
        if delta.get("id") and self.id:
            return bool(delta["id"] == self.id)
        return self.field == "function_call" or delta.get("index") is not None or not self.name

    def piece(self) -> Piece:
        arguments: Any = "".join(self.fragments) if self._object is None else self._object
        inner = {"name": self.name, "input" if self.is_custom else "arguments": arguments}
        if self.field == "function_call":
            return self.field, inner
        return self.field, {**self._native.fields(), "id": self.id, "type": self._kind, self._kind: inner}
