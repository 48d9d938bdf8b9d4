"""What a request could use at most, as budgets and limits reserve it: of the output a part at first, and more while a
stream runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta, ToolUseInputDelta
from dragoman.canonical.usage import TokenUsage

DEFAULT_OUTPUT_TOKENS = 4_096
"""What is reserved at first for each answer, if the request names no maximum of output."""


@dataclass(frozen=True, slots=True)
class MaxUsage:
    """The most that a request could use. ``input`` has the estimated tokens in the bucket that they are billed in.
    ``output_tokens`` is the most that the request allows. ``replies`` is the number of alternatives, or None if the
    request names a maximum of output.

    ``predicted_tokens`` are those of a prediction, which are part of the output and billed if the model rejects them.

    ``more_input`` is what may be read beyond that: remote documents, and the prompt again with each result of a tool.
    ``tool_calls`` are the most that are billed, by the tool's name. ``unbounded`` names tools that are billed by call
    and may be called without limit, with the setting that limits them.
    """

    model: str
    """The model whose prices count, as ``provider:name``."""
    input: TokenUsage
    output_tokens: int = 0
    replies: int | None = None
    more_input: int = 0
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    unbounded: tuple[str, ...] = ()
    predicted_tokens: int = 0

    @property
    def first_output_tokens(self) -> int:
        """The output that is reserved before the request is sent."""
        if self.replies is None:
            return self.output_tokens
        return min(self.output_tokens, DEFAULT_OUTPUT_TOKENS * self.replies + self.predicted_tokens)

    @property
    def total(self) -> TokenUsage:
        """The most that the reply could report. What is unbounded is `TokenUsage.unread`, so that it has no price."""
        inputs = {name: getattr(self.input, name) for name in _INPUT_BUCKETS if getattr(self.input, name)}
        return self.input.model_copy(
            update={
                **{name: tokens + self.more_input for name, tokens in inputs.items()},
                "output_tokens": self.output_tokens,
                "server_tools": dict(self.tool_calls),
                "unread": self.unbounded,
            }
        )


_INPUT_BUCKETS = ("input_tokens", "cache_creation_input_tokens", "cache_creation_1h_input_tokens")

MeasureUsage = Callable[[], MaxUsage]
"""Estimates what a request could use. A long prompt takes time, so it is called only if something counts the use."""


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
