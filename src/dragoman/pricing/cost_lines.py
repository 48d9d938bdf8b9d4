"""What many replies cost together: one line for each group of them, added up exactly."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from dragoman.canonical.usage import CostStatus, Usage
from dragoman.pricing.quote import EXACT


@dataclass(frozen=True, slots=True)
class CostLine:
    """``key``: what the group's replies share, in the order asked for; None where a reply does not tell.

    ``cost_usd`` is the sum of what is known, and None, never 0, where nothing is. ``statuses`` counts the replies by
    status, ``unpriced`` those that have each gap (buckets, tools, what has no price).
    """

    key: tuple[str | None, ...]
    replies: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = None
    statuses: Mapping[CostStatus, int] = field(default_factory=dict)
    unpriced: Mapping[str, int] = field(default_factory=dict)

    @property
    def status(self) -> CostStatus:
        """Free where all is free, priced where all is known, unpriced where nothing is, partial otherwise."""
        found = {status for status, count in self.statuses.items() if count}
        if found <= {CostStatus.FREE}:
            return CostStatus.FREE
        if found <= {CostStatus.FREE, CostStatus.PRICED}:
            return CostStatus.PRICED
        return CostStatus.UNPRICED if found == {CostStatus.UNPRICED} else CostStatus.PARTIAL

    def __str__(self) -> str:
        """The cost as a person reads it, to the millionth of a dollar; unknown is said, never shown as 0."""
        if self.cost_usd is None:
            return "unknown" if self.replies else "$0"
        if self.status is CostStatus.FREE:
            return "free"
        return f"{'at least ' if self.status is CostStatus.PARTIAL else ''}${self.cost_usd:,.6f}"


def cost_line(key: tuple[str | None, ...], usage: Usage | None) -> CostLine:
    """The line of one reply. One without token counts has an unknown cost."""
    if usage is None:
        return CostLine(key, 1, statuses={CostStatus.UNPRICED: 1})
    return CostLine(
        key,
        1,
        usage.prompt_tokens,
        usage.output_tokens,
        usage.cost_usd,
        {usage.cost_status: 1},
        dict.fromkeys(usage.unpriced, 1),
    )


def sum_by_key(lines: Iterable[CostLine]) -> tuple[CostLine, ...]:
    """Lines of one key become one; sorted by key, what does not tell first."""
    groups: dict[tuple[str | None, ...], _Sum] = {}
    for line in lines:
        groups.setdefault(line.key, _Sum()).add(line)
    keys = sorted(groups, key=lambda key: tuple((part is not None, part or "") for part in key))
    return tuple(groups[key].line(key) for key in keys)


def sum_lines(lines: Iterable[CostLine]) -> CostLine:
    """All lines as one, with an empty key."""
    whole = _Sum()
    for line in lines:
        whole.add(line)
    return whole.line(())


class _Sum:
    def __init__(self) -> None:
        self._replies = self._prompt = self._output = 0
        self._cost: Decimal | None = None
        self._statuses: Counter[CostStatus] = Counter()
        self._unpriced: Counter[str] = Counter()

    def add(self, line: CostLine) -> None:
        self._replies += line.replies
        self._prompt += line.prompt_tokens
        self._output += line.output_tokens
        if line.cost_usd is not None:
            self._cost = line.cost_usd if self._cost is None else EXACT.add(self._cost, line.cost_usd)
        self._statuses.update(line.statuses)
        self._unpriced.update(line.unpriced)

    def line(self, key: tuple[str | None, ...]) -> CostLine:
        return CostLine(
            key, self._replies, self._prompt, self._output, self._cost, dict(self._statuses), dict(self._unpriced)
        )
