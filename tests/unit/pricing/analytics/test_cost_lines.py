"""Sums of costs: one line for each group, exact, and honest about what is unknown."""

from decimal import Decimal

import pytest

from dragoman.canonical.usage import CostStatus, Usage
from dragoman.pricing.analytics.cost_lines import CostLine, cost_line, sum_by_key, sum_lines

PRICED, FREE, PARTIAL, UNPRICED = CostStatus.PRICED, CostStatus.FREE, CostStatus.PARTIAL, CostStatus.UNPRICED
USAGE = Usage(
    input_tokens=1,
    cached_input_tokens=20,
    output_tokens=300,
    cost_usd=Decimal("0.5"),
    cost_status=PARTIAL,
    unpriced=("output_tokens",),
)


def test_a_reply_is_a_line() -> None:
    """With its prompt, its output, its cost and its gaps; without counts its cost is unknown."""
    assert cost_line(("ann",), USAGE) == CostLine(
        ("ann",), 1, 21, 300, Decimal("0.5"), {PARTIAL: 1}, {"output_tokens": 1}
    )
    assert cost_line((None,), None) == CostLine((None,), 1, 0, 0, None, {UNPRICED: 1}, {}, 1)


def test_lines_of_a_key_are_one_line() -> None:
    """Everything adds up; unknown keys come first, and a group without a known cost has None."""
    lines = [
        cost_line(("bob", "x"), USAGE),
        cost_line(("bob", None), None),
        cost_line(("bob", "x"), USAGE.model_copy(update={"cost_status": PRICED, "unpriced": ()})),
        cost_line((None, "x"), Usage(input_tokens=5, cost_usd=Decimal(0), cost_status=FREE)),
        cost_line(("bob", "x"), None),
    ]
    assert sum_by_key(lines) == (
        CostLine((None, "x"), 1, 5, 0, Decimal(0), {FREE: 1}, {}),
        CostLine(("bob", None), 1, 0, 0, None, {UNPRICED: 1}, {}, 1),
        CostLine(
            ("bob", "x"), 3, 42, 600, Decimal("1.0"), {PARTIAL: 1, PRICED: 1, UNPRICED: 1}, {"output_tokens": 1}, 1
        ),
    )
    assert sum_lines(lines) == CostLine(
        (), 5, 47, 600, Decimal("1.0"), {PARTIAL: 1, UNPRICED: 2, PRICED: 1, FREE: 1}, {"output_tokens": 1}, 2
    )
    assert sum_lines([]) == CostLine(())


@pytest.mark.parametrize(
    ("line", "tokens", "text"),
    [
        (CostLine((), 2, 10, uncounted=1), "at least 10", "unknown"),
        (CostLine((), 2, uncounted=2), "not reported", "unknown: no tokens reported"),
        (CostLine((), 1, 1234, cost_usd=Decimal(1), statuses={PRICED: 1}), "1,234", "$1.000000"),
    ],
)
def test_what_was_not_reported_is_said(line: CostLine, tokens: str, text: str) -> None:
    assert (line.describe_tokens(line.prompt_tokens), str(line)) == (tokens, text)


def test_an_unknown_key_comes_before_an_empty_one() -> None:
    """They are not the same."""
    assert [line.key for line in sum_by_key([cost_line((key,), None) for key in ("a", "", None)])] == [
        (None,),
        ("",),
        ("a",),
    ]


def test_sums_are_exact() -> None:
    """More digits than an ordinary decimal context has."""
    costs = [Decimal("1e20"), Decimal("1e-20")]
    total = sum_lines([CostLine((), 1, cost_usd=cost) for cost in costs]).cost_usd
    assert str(total) == "100000000000000000000.00000000000000000001"


@pytest.mark.parametrize(
    ("statuses", "usd", "status", "text"),
    [
        ({}, None, FREE, "$0"),
        ({FREE: 2}, "0", FREE, "free"),
        ({FREE: 1, PRICED: 1}, "1.5", PRICED, "$1.500000"),
        ({PRICED: 2, PARTIAL: 0}, "1234.5", PRICED, "$1,234.500000"),
        ({PRICED: 1, UNPRICED: 1}, "1.5", PARTIAL, "at least $1.500000"),
        ({PARTIAL: 1}, "1.5", PARTIAL, "at least $1.500000"),
        ({PARTIAL: 1}, None, PARTIAL, "unknown"),
        ({UNPRICED: 1, FREE: 1}, "0", PARTIAL, "at least $0.000000"),
        ({UNPRICED: 2}, None, UNPRICED, "unknown"),
    ],
)
def test_a_line_says_what_its_cost_is(
    statuses: dict[CostStatus, int], usd: str | None, status: CostStatus, text: str
) -> None:
    """Unknown is spelled out, and a lower bound is called one."""
    cost = None if usd is None else Decimal(usd)
    line = CostLine((), sum(statuses.values()), cost_usd=cost, statuses=statuses)
    assert (line.status, str(line)) == (status, text)
