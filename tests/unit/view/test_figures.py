"""Numbers for people, and the axes of charts."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.usage import CostStatus, Usage
from dragoman.view import figures
from dragoman.view.figures import COST_HEIGHT, TOKENS_HEIGHT, TOKENS_TOP, ChartReply, chart


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "$0.00"), ("0.0000001", "under $0.000001"), ("0.000148", "$0.000148"), ("1.5", "$1.50"), ("12", "$12.00")],
)
def test_money_is_shown_to_a_millionth_of_a_dollar(amount: str, text: str) -> None:
    """A positive amount is never shown as zero."""
    assert figures.money(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("status", "cost", "text"),
    [
        (CostStatus.PRICED, "0.25", "$0.25"), (CostStatus.FREE, None, "free"),
        (CostStatus.PARTIAL, "0.25", "at least $0.25"), (CostStatus.PARTIAL, None, "price unknown"),
        (CostStatus.UNPRICED, None, "price unknown"),
    ],
)  # fmt: skip
def test_the_cost_of_a_reply(status: CostStatus, cost: str | None, text: str) -> None:
    """An unknown one is shown as unknown."""
    usage = Usage(cost_status=status, cost_usd=None if cost is None else Decimal(cost))
    assert figures.cost(usage) == text
    assert figures.cost(None) == "price unknown"


@pytest.mark.parametrize(
    ("count", "text"), [(None, ""), (0, "0 bytes"), (999, "999 bytes"), (1000, "1 KB"), (2_500_000, "2 MB")]
)
def test_sizes_have_fitting_units(count: int | None, text: str) -> None:
    assert figures.size(count) == text


@given(st.decimals(min_value="0.000001", max_value=10**9, allow_nan=False, places=6))
def test_the_top_of_an_axis_is_round_and_close(largest: Decimal) -> None:
    """The top of an axis is round and close: 1, 2 or 5 times a power of ten, and less than two and a half times the
    largest value.
    """
    top = figures.axis_top(largest)
    assert largest <= top < largest * Decimal("2.5") + Decimal("1e-12")
    assert top.normalize().as_tuple().digits in ((1,), (2,), (5,))


@given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 4), min_size=1, max_size=80))
def test_every_column_is_inside_the_picture(counts: list[tuple[int, int, int, int]]) -> None:
    """Every column is inside the picture from left to right, no higher than the axis, and in proportion."""
    replies = [
        ChartReply(
            number, "ollama:any", 0,
            Usage(input_tokens=a, output_tokens=b, cached_input_tokens=c, cache_creation_input_tokens=d,
                  cost_usd=Decimal(a), cost_status=CostStatus.PRICED),
        )
        for number, (a, b, c, d) in enumerate(counts, 1)
    ]  # fmt: skip
    picture = chart(replies)
    assert picture is not None
    least = 4.0  # bars are at least a pixel high
    for column, after in zip(picture.columns, [*picture.columns[1:], None], strict=True):
        assert column.x >= 11
        assert column.x + column.width <= (100 if after is None else after.x)
        tokens = [bar for bar in column.bars if bar.name != "cost"]
        assert sum(bar.height for bar in tokens) <= TOKENS_HEIGHT + least
        assert min((bar.y for bar in tokens), default=TOKENS_TOP) >= TOKENS_TOP - least
        assert all(bar.height <= COST_HEIGHT for bar in column.bars if bar.name == "cost")
    assert (picture.pixels is None) == (len(counts) <= 48)
