"""Numbers as text for people. Unknown values are marked as unknown, never shown as 0."""

from collections.abc import Iterator
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
    if usage is None:
        return "price unknown"
    match usage.cost_status:
        case CostStatus.FREE:
            return "free"
        case CostStatus.PARTIAL if usage.cost_usd is not None:
            return f"at least {money(usage.cost_usd)}"
        case CostStatus.PRICED if usage.cost_usd is not None:
            return money(usage.cost_usd)
        case _:
            return "price unknown"


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
