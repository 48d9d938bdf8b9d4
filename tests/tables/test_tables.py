"""The rows of a table that are one test: all of them run, and the error names those that fail."""

import pytest

from tests.tables import each_row


def test_every_row_runs_and_failures_are_named() -> None:
    """An error, a failed assertion and `pytest.fail` count alike."""
    seen = []

    @each_row(("a", "b"), [(1, 1), (2, 3), (4, 0), (5, 5), (6, -1)])
    def check(a: int, b: int) -> None:
        seen.append(a)
        if b < 0:
            pytest.fail("negative")
        assert a // b == 1

    with pytest.raises(AssertionError) as caught:
        check()
    first, *others = str(caught.value).split("\n(")
    assert first == "3 of 5 rows fail:"
    assert [line.split(": ")[0] for line in others] == ["2, 3)", "4, 0)", "6, -1)"]
    assert others[1].startswith("4, 0): ZeroDivisionError")
    assert isinstance(caught.value.__cause__, AssertionError)
    assert seen == [1, 2, 4, 5, 6]


@each_row("number", range(3), ids=str)
@each_row("word", ["a", "b"])
def test_fixtures_and_other_tables_are_combined(request: pytest.FixtureRequest, number: int, word: str) -> None:
    assert request.node.name == "test_fixtures_and_other_tables_are_combined"
    assert word * number in {"", "a", "b", "aa", "bb"}


def test_a_table_has_rows() -> None:
    """An empty one is a mistake, not a test that passes."""
    with pytest.raises(AssertionError, match="without rows"):
        each_row("row", [])


def test_a_skip_skips_the_whole_test() -> None:
    """The same holds for an interruption."""

    @each_row("row", [1, 2])
    def check(row: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        check()
