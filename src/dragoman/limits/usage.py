"""What a request could use at most, as budgets and limits reserve it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
