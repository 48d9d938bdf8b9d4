"""Sums of the cost of many replies: one exact line for each group."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from dragoman.canonical.usage import CostStatus, Usage, combine_statuses
from dragoman.pricing.quote import EXACT


@dataclass(frozen=True, slots=True)
class CostLine:
    """``key``: the values that the group's replies share, in the given order; None for an unknown value.

    ``cost_usd`` is the sum of the known costs, and None, never 0, if none is known. ``statuses`` counts the replies by
    status, ``unpriced`` by gap (buckets, tools, words without a price). ``uncounted`` is the number of replies of which
    the provider reported no tokens.
    """

    key: tuple[str | None, ...]
    replies: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    statuses: Mapping[CostStatus, int] = field(default_factory=dict)
    unpriced: Mapping[str, int] = field(default_factory=dict)
    uncounted: int = 0

    def describe_tokens(self, count: int) -> str:
        """Return a number of tokens as text: what no provider reported is said, and not shown as 0."""
        if self.uncounted and self.uncounted == self.replies:
            return "not reported"
        return f"{'at least ' if self.uncounted else ''}{count:,}"

    @property
    def status(self) -> CostStatus:
        """Free if all are free, priced if all are known, unpriced if none is, otherwise partial."""
        return combine_statuses(status for status, count in self.statuses.items() if count)

    def __str__(self) -> str:
        """Format the cost to the millionth of a dollar. Unknown is spelled out, never shown as 0."""
        if self.cost_usd is None:
            if self.replies and self.uncounted == self.replies:
                return "unknown: no tokens reported"
            return "unknown" if self.replies else "$0"
        if self.status is CostStatus.FREE:
            return "free"
        return f"{'at least ' if self.status is CostStatus.PARTIAL else ''}${self.cost_usd:,.6f}"


def cost_line(key: tuple[str | None, ...], usage: Usage | None) -> CostLine:
    """Return the line of one reply. Without token counts, the cost is unknown."""
    if usage is None:
        return CostLine(key, 1, statuses={CostStatus.UNPRICED: 1}, uncounted=1)
    return CostLine(
        key,
        1,
        usage.prompt_tokens,
        usage.output_tokens,
        usage.cost_usd,
        {usage.cost_status: 1},
        dict.fromkeys(usage.unpriced, 1),
        usage.uncounted_replies or 0,
    )


def sum_by_key(lines: Iterable[CostLine]) -> tuple[CostLine, ...]:
    """Merge the lines of each key; sorted by key, unknown values first."""
    groups: dict[tuple[str | None, ...], _Sum] = {}
    for line in lines:
        groups.setdefault(line.key, _Sum()).add(line)
    keys = sorted(groups, key=lambda key: tuple((part is not None, part or "") for part in key))
    return tuple(groups[key].line(key) for key in keys)


def sum_lines(lines: Iterable[CostLine]) -> CostLine:
    """Merge all lines into one with an empty key."""
    whole = _Sum()
    for line in lines:
        whole.add(line)
    return whole.line(())


class _Sum:
    def __init__(self) -> None:
        self._replies = self._prompt = self._output = self._uncounted = 0
        self._cost: Decimal | None = None
        self._statuses: Counter[CostStatus] = Counter()
        self._unpriced: Counter[str] = Counter()

    def add(self, line: CostLine) -> None:
        self._replies += line.replies
        self._prompt += line.prompt_tokens
        self._output += line.output_tokens
        self._uncounted += line.uncounted
        if line.cost_usd is not None:
            self._cost = line.cost_usd if self._cost is None else EXACT.add(self._cost, line.cost_usd)
        self._statuses.update(line.statuses)
        self._unpriced.update(line.unpriced)

    def line(self, key: tuple[str | None, ...]) -> CostLine:
        return CostLine(
            key, self._replies, self._prompt, self._output, self._cost, dict(self._statuses), dict(self._unpriced),
            self._uncounted,
        )  # fmt: skip
