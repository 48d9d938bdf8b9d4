"""The output that an attempt reserves: a part at first, and more while a stream runs."""

from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta, ToolUseInputDelta
from dragoman.limits.usage import MaxUsage

BYTES_PER_TOKEN = 4
"""Bytes of UTF-8: some four letters of English, and a little more than one character of Chinese or Japanese."""
_MORE = 2
"""How many times the reserved output grows when a stream exceeds it."""


class ReservedOutput:
    """``cap`` is the most that is reserved at first, whatever the request says."""

    __slots__ = ("_most", "counted", "tokens")

    def __init__(self, use: MaxUsage, cap: int | None = None) -> None:
        self._most = use.output_tokens
        self.tokens = use.first_output_tokens if cap is None else min(cap, use.output_tokens)
        self.counted = 0
        """Bytes of output that have arrived."""

    @property
    def may_grow(self) -> bool:
        return self.tokens < self._most

    def count(self, event: StreamEvent) -> bool:
        """Count what arrives. Returns whether more has to be reserved before the event is passed on: `tokens` is then
        how much."""
        if type(event) in (TextDelta, ThinkingDelta):
            self.counted += text_bytes(event.text)  # type: ignore[union-attr]  # both have it
        elif type(event) is ToolUseInputDelta:
            self.counted += text_bytes(event.partial_json)
        if self.counted <= self.tokens * BYTES_PER_TOKEN or not self.may_grow:
            return False
        self.tokens = min(max(1, self.tokens * _MORE), self._most)
        return True


def text_bytes(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
