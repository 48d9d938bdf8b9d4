"""Accumulates one step from its events."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman_adapters.google.decode_blocks import RAW_INPUT

INPUT_STEPS = ("user_input", "function_result")
"""Steps of the input, which the stream repeats."""
_CALL, _OUTPUT = "function_call", "model_output"


class StepAccumulator:
    """A step's object, and the pieces of its deltas, which are joined when they are needed.

    ``position`` is its position among the model's steps, ``first_block`` the index of its first block in the message.
    """

    __slots__ = ("_arguments", "_texts", "call", "first_block", "native", "position", "stopped")

    def __init__(self, native: dict[str, Any], position: int, first_block: int) -> None:
        self.native = dict(native)
        if native.get("content"):
            self.native["content"] = [dict(each) for each in native["content"]]
        self.position = position
        self.first_block = first_block
        self.call = ""
        """The canonical id, if the step is a call."""
        self.stopped = False
        self._texts: dict[int, list[str]] = {}
        self._arguments: list[str] = []

    @property
    def kind(self) -> str:
        kind: str = self.native["type"]
        return kind

    @property
    def is_call(self) -> bool:
        return self.kind == _CALL

    @property
    def is_output(self) -> bool:
        return self.kind == _OUTPUT

    @property
    def is_repeated(self) -> bool:
        return self.kind in INPUT_STEPS

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The contents of a model_output so far."""
        found: list[dict[str, Any]] = self.native.get("content") or []
        return found

    @property
    def blocks(self) -> int:
        """The number of blocks that the step becomes, as far as is known."""
        if self.is_output:
            return len(self.contents)
        return 0 if self.is_repeated else 1

    @property
    def last_block(self) -> int:
        return self.first_block + len(self.contents) - 1

    def add_content(self, native: dict[str, Any]) -> None:
        if not self.native.get("content"):
            self.native["content"] = []
        self.native["content"].append(native)

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
