"""A question enters no more functions and files than it did."""

import pytest

from tests.attempts.functions import ROADS, bounds


@pytest.mark.parametrize("road", ROADS)
def test_a_question_enters_few_functions(road: str) -> None:
    """To lower a bound: python -m tests.attempts.functions --write."""
    counted, bound = ROADS[road](), bounds()[road]
    assert {name: counted[name] for name in bound if counted[name] > bound[name]} == {}, f"{counted}, at most {bound}"
