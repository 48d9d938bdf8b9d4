"""Numbers as text for people, and as a chart. Unknown values are marked as unknown, never shown as 0.

The chart has a bar for the tokens and the cost of each reply: positions and heights; the template draws it. Widths are
percentages, so that the picture fits a phone; heights are pixels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from dragoman.canonical.usage import CostStatus, Usage

_MIN_SHOWN = Decimal("0.000001")
_STEPS = (1, 2, 5)
_KILO = 1000


def money(amount: Decimal) -> str:
    """Return dollars as text, to a millionth; a smaller amount is not shown as 0."""
    if 0 < amount < _MIN_SHOWN:
        return f"under ${_MIN_SHOWN:f}"
    text = f"{amount:.6f}".rstrip("0")
    whole, _, part = text.partition(".")
    return f"${whole}.{part.ljust(2, '0')}"


def cost(usage: Usage | None) -> str:
    """Return the cost of one reply as text."""
    if usage is not None and usage.cost_status is CostStatus.FREE:
        return "free"
    if usage is None or usage.cost_usd is None or usage.cost_status not in (CostStatus.PRICED, CostStatus.PARTIAL):
        return "price unknown"
    return f"{'at least ' if usage.cost_status is CostStatus.PARTIAL else ''}{money(usage.cost_usd)}"


def tokens(usage: Usage) -> Iterator[str]:
    """Yield the input and the output tokens as a few words each."""
    cached = f", {usage.cached_input_tokens:,} of them cached" if usage.cached_input_tokens else ""
    yield f"{usage.prompt_tokens:,} tokens in{cached}"
    reasoning = f", {usage.reasoning_tokens:,} of them reasoning" if usage.reasoning_tokens else ""
    yield f"{usage.output_tokens:,} out{reasoning}"


def seconds(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 1000:.1f} s"


def size(count: int | None) -> str:
    """Return a number of bytes as text."""
    if count is None:
        return ""
    for unit in ("bytes", "KB", "MB"):
        if count < _KILO:
            return f"{count:,} {unit}"
        count = round(count / _KILO)
    return f"{count:,} GB"


def plural(count: int, word: str, many: str | None = None) -> str:
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def axis_top(largest: Decimal) -> Decimal:
    """Return the least of 1, 2, 5, 10, 20 … (or 0.1, 0.05 …) that is not below ``largest``: the top of an axis."""
    if largest <= 0:
        return Decimal(1)
    power = Decimal(10) ** largest.adjusted()
    return next((power * step for step in _STEPS if power * step >= largest), power * 10)


def axis_label(amount: Decimal) -> str:
    """Return a label of an axis: 500, 20k, 1.5M."""
    for limit, unit in ((10**6, "M"), (10**3, "k")):
        if amount >= limit:
            return f"{(amount / limit).normalize():f}{unit}"
    return f"{amount.normalize():f}"


TOKENS_TOP, TOKENS_HEIGHT = 22, 88
COST_TOP, COST_HEIGHT = 142, 40
HEIGHT = 202
_LEFT, _WIDTH = 11.0, 88.5
_GAP = 0.28
_MAX_WIDTH = 6.5
_MIN_HEIGHT = 1.0
_SCROLL_FROM = 48
_COLUMN = 14

_PARTS = (
    ("cached", "cached input", "cached_input_tokens"),
    ("written", "written to cache", "cache_creation_input_tokens"),
    ("fresh", "other input", "input_tokens"),
    ("output", "output", "output_tokens"),
)


@dataclass(frozen=True, slots=True)
class ChartReply:
    """One column: a reply, by the number of its message."""

    number: int
    model: str
    hue: int
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Bar:
    """Part of a column; ``name`` is its CSS class."""

    name: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Column:
    reply: ChartReply
    x: float
    width: float
    bars: tuple[Bar, ...]
    label: str
    unknown_cost: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """``pixels`` is the minimum width of the picture, or None for no minimum."""

    columns: tuple[Column, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, str], ...]
    description: str
    pixels: int | None


def chart(replies: Sequence[ChartReply]) -> Chart | None:
    """Return the chart, or None if there is nothing to draw."""
    usages = [reply.usage for reply in replies if reply.usage is not None]
    if not usages:
        return None
    max_tokens = axis_top(Decimal(max(usage.total_tokens for usage in usages)))
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    max_cost = axis_top(max(costs, default=Decimal(0)))
    largest = max(usages, key=lambda usage: usage.total_tokens)
    known_cost = f"costs go up to {money(max(costs))}" if costs else "no cost is known"
    pitch = _WIDTH / len(replies)
    width = min(_MAX_WIDTH, pitch * (1 - _GAP))
    columns = []
    for index, reply in enumerate(replies):
        x, usage = _LEFT + pitch * index + (pitch - width) / 2, reply.usage
        bars = () if usage is None else tuple(_bars(usage, max_tokens, max_cost))
        unknown = usage is None or usage.cost_status in (CostStatus.UNPRICED, CostStatus.PARTIAL)
        words = ["the provider reported no tokens"] if usage is None else list(tokens(usage))
        label = f"{reply.number} · {reply.model}: {'; '.join(words)}; {cost(usage)}"
        columns.append(Column(reply, round(x, 3), round(width, 3), bars, label, unknown))
    legend = [(name, words) for name, words, field in _PARTS if any(getattr(usage, field) for usage in usages)]
    return Chart(
        tuple(columns),
        (
            (TOKENS_TOP, axis_label(max_tokens)),
            (TOKENS_TOP + TOKENS_HEIGHT / 2, axis_label(max_tokens / 2)),
            (COST_TOP, f"${max_cost.normalize():f}" if any(costs) else "$0"),
        ),
        tuple(legend),
        f"{plural(len(replies), 'reply', 'replies')}, one column each."
        f" The largest used {largest.total_tokens:,} tokens; {known_cost}. The table below has every number.",
        _COLUMN * len(replies) if len(replies) > _SCROLL_FROM else None,
    )


def _bars(usage: Usage, max_tokens: Decimal, max_cost: Decimal) -> Iterator[Bar]:
    bottom = float(TOKENS_TOP + TOKENS_HEIGHT)
    for name, _, field in _PARTS:
        if count := getattr(usage, field):
            height = max(_MIN_HEIGHT, float(count / max_tokens) * TOKENS_HEIGHT)
            bottom -= height
            yield Bar(name, round(bottom, 2), round(height, 2))
    if usage.cost_usd:
        height = max(_MIN_HEIGHT, float(usage.cost_usd / max_cost) * COST_HEIGHT)
        yield Bar("cost", round(COST_TOP + COST_HEIGHT - height, 2), round(height, 2))
