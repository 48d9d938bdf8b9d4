"""Reservations: the most that one attempt of a request could use, what it holds while it runs, and what it is charged,
by how it ended. The rules are the same for all kinds of requests.

DragomanError
├── ProviderError
│   └── RateLimitError
│       └── LimitReachedError   a limit of the program's own; nothing was sent
└── LimitsUnavailableError      the server of the counters does not answer; nothing was sent
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from dragoman.adapter.errors import BudgetExceededError, DragomanError, MalformedReplyError, RateLimitError
from dragoman.canonical.blocks import replace_fields
from dragoman.canonical.events import StreamEvent, TextDelta, ThinkingDelta, ToolUseInputDelta
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.effects import Abandoned, Broken, Failed, Observe, Perform, Replied, SendOutcome, Stage


class LimitReachedError(RateLimitError):
    """A limit of the program's own has no room for a request. Nothing was sent, and nothing counted. ``retry_after`` is
    the number of seconds until there is room; None means never, because the request is larger than the limit.

    It does not count as a failure of the provider; a router may fall back to another model.
    """

    error_class: ClassVar[str] = "limited"
    sent = False


class LimitsUnavailableError(DragomanError):
    """The server that holds the counters does not answer. Nothing was sent."""

    sent = False


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

    def expected_output(self, reply_tokens: int | None) -> int:
        """Return the output that is reserved before the request is sent, where one reply is expected to have so many
        tokens. None is for the most that the request allows."""
        if self.replies is None or reply_tokens is None:
            return self.output_tokens
        return min(self.output_tokens, reply_tokens * self.replies + self.predicted_tokens)

    @property
    def first_output_tokens(self) -> int:
        """The output that a budget reserves before the request is sent."""
        return self.expected_output(DEFAULT_OUTPUT_TOKENS)

    @property
    def total(self) -> TokenUsage:
        """The most that the reply could report. What is unbounded is `TokenUsage.unread`, so that it has no price."""
        return self.total_with(self.output_tokens)

    def total_with(self, output_tokens: int) -> TokenUsage:
        """Return the most that a reply with so much output could report."""
        inputs = {name: getattr(self.input, name) for name in _INPUT_BUCKETS if getattr(self.input, name)}
        return replace_fields(
            self.input,
            {
                **{name: tokens + self.more_input for name, tokens in inputs.items()},
                "output_tokens": output_tokens,
                "server_tools": dict(self.tool_calls),
                "unread": self.unbounded,
            },
        )


_INPUT_BUCKETS = ("input_tokens", "cache_creation_input_tokens", "cache_creation_1h_input_tokens")

MeasureUsage = Callable[[], MaxUsage]
"""Estimates what a request could use. A long prompt takes time, so it is called only if something counts the use."""


class Reservation:
    """What one governor holds for one attempt; this one holds nothing. The first of `settle` and `release` ends it, and
    later calls do nothing.
    """

    observe: Observe | None = None
    """Called with the headers or the error of the response, for limits that a provider reports."""
    stage: Stage | None = None
    """Sees the reply as it arrives: it may reserve more, or end the reply."""

    def settle(self, outcome: SendOutcome) -> Perform | None:
        """End it by how the attempt ended. Returns an effect if that may wait."""

    def release(self) -> None:
        """End it: nothing was sent."""


class Governor(Protocol):
    """Lets each attempt start, or refuses it."""

    def reserve(self, measure: MeasureUsage, /) -> Reservation | Perform:
        """Reserve what one attempt may use; a `Perform`, whose result is the reservation, may wait.

        Raises what refuses the attempt, before anything is sent. A ProviderError fails this attempt alone: another
        model may have room.
        """
        ...


NOTHING_RESERVED = Reservation()


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


def charged_use(
    outcome: SendOutcome, estimate_input: Callable[[], TokenUsage | None], arrived: int = 0
) -> TokenUsage | None:
    """Return what an attempt is charged: a `Usage` if its provider reported it, and otherwise an estimate. None if it
    costs nothing.

    A reply without a final report costs the larger of its report and what arrived: ``arrived`` bytes of output, or
    those of the partial message. Without a report it costs its estimated input too. Nothing is charged for what was not
    sent, and for a reply that its provider broke before the caller saw any of it.
    """
    reported = usage_of(outcome)
    if isinstance(outcome, Replied) and reported is not None:
        return reported
    if reported is None and not is_billed(outcome):
        return None
    output = max(arrived, _output_bytes(outcome)) // BYTES_PER_TOKEN
    if reported is not None and (
        reported.cost_status is CostStatus.PRICED  # the final report: that of a part is a lower bound
        or reported.output_tokens >= output
    ):
        return reported
    if reported is None:
        used = estimate_input()
    else:
        used = TokenUsage.model_validate({name: getattr(reported, name) for name in TokenUsage.model_fields})
    return reported if used is None else used.model_copy(update={"output_tokens": output})


def is_ended_here(outcome: SendOutcome) -> bool:
    """Whether a budget or a limit ended a reply that its provider was still writing."""
    return isinstance(outcome, Broken) and isinstance(outcome.error, (BudgetExceededError, LimitReachedError))


def is_unreadable(outcome: SendOutcome) -> bool:
    """Whether a reply arrived whole and cannot be read."""
    return isinstance(outcome, Broken) and isinstance(outcome.error, MalformedReplyError)


def is_billed(outcome: SendOutcome) -> bool:
    """Whether a reply that reported no usage was probably billed all the same."""
    match outcome:
        case Replied():
            return True
        case Broken():
            return outcome.seen or is_unreadable(outcome) or is_ended_here(outcome)
        case Abandoned():  # the provider may continue
            return outcome.sent or outcome.partial is not None
        case Failed():
            return False


def _output_bytes(outcome: SendOutcome) -> int:
    """Return the bytes of what the model wrote: text, thinking, and the arguments of calls."""
    message: Message | None = outcome.message if isinstance(outcome, Replied) else getattr(outcome, "partial", None)
    size = 0
    for block in () if message is None else message.content:
        for name in ("text", "thinking", "raw_input"):
            if isinstance(text := getattr(block, name, None), str):
                size += text_bytes(text)
                break
        else:
            if given := getattr(block, "input", None):
                size += text_bytes(str(given))
    return size


def was_sent(outcome: SendOutcome) -> bool:
    """Whether the request left this program, as far as it knows."""
    if isinstance(outcome, Replied):
        return True
    return outcome.sent if isinstance(outcome, Abandoned) else getattr(outcome.error, "sent", None) is not False


def usage_of(outcome: SendOutcome) -> Usage | None:
    """Return what the provider reported of the reply, or of its part."""
    match outcome:
        case Replied():
            return outcome.message.usage
        case Broken():
            return None if outcome.partial is None else outcome.partial.usage
        case Abandoned():
            reply = outcome.partial or outcome.billed
            return None if reply is None else reply.usage
        case Failed():
            return None
