"""The report for reviewers of new price data: each model whose price, match or variants changed."""

from tests.upkeep.prices import compare, models

BEFORE = """
provider = "acme"
[[model]]
id = "one"
match = { equals = ["one"] }
prices = [
  { until = 2026-01-01, input = "1" },
  { from = 2026-01-01, input = "2", over = [{ tokens = 1000, input = "3" }] },
]
[[model]]
id = "two"
match = { regex = ["^(a|b)$"] }
"""


def lines(before: str, after: str) -> list[str]:
    return list(compare(models([before]), models([after])))


def test_nothing_changed() -> None:
    """A new release can be about other things."""
    assert lines(BEFORE, BEFORE) == ["No model has another price."]


def test_a_changed_price_is_a_row() -> None:
    *_, row = lines(BEFORE, BEFORE.replace('input = "2"', 'input = "2.5"'))
    was = "until 2026-01-01, input 1; from 2026-01-01, input 2, over tokens 1000, input 3"
    assert row == f"| `acme:one` | prices | {was} | {was.replace('input 2', 'input 2.5')} |"


def test_cell_separators_are_escaped() -> None:
    """A regular expression may contain one."""
    *_, row = lines(BEFORE, BEFORE.replace("^(a|b)$", "^a$"))
    assert row == r"| `acme:two` | match | regex ^(a\|b)$ | regex ^a$ |"


def test_added_and_removed_models_are_named() -> None:
    assert lines(BEFORE, BEFORE.replace('"two"', '"three"')) == ["\nNew models: `acme:three`.", "\nGone: `acme:two`."]


def test_a_table_without_models_is_left_out() -> None:
    """The index and the overlay have another form."""
    assert models(['date = 2026-01-01\n[acme]\ntools = { web_fetch = "0" }']) == {}
