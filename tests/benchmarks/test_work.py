"""Guards of speed without a clock: functions that are called, and modules that are loaded."""

import pytest

from dragoman import Pipeline, RequestContext, get_adapter
from tests.benchmarks import policy
from tests.benchmarks.call_counts import STAGES, budgets, calls_of, modules_of, recorded_version, works
from tests.benchmarks.wires import WIRES, arguments

HEADROOM = 1.2


@pytest.mark.parametrize("name", WIRES)
def test_no_path_calls_a_fifth_more_functions_than_its_budget(name: str) -> None:
    """A call, a stream, a first request and a next turn do not get slower unnoticed."""
    budget = budgets()["calls"][recorded_version()][name]
    counted = {what: calls_of(work) for what, work in works(WIRES[name]).items()}
    assert counted.keys() == budget.keys()
    over = {
        what: f"{number}, not {budget[what]}" for what, number in counted.items() if number > budget[what] * HEADROOM
    }
    assert not over, "calls of functions; if that is meant: python -m tests.benchmarks.call_counts"


@pytest.mark.parametrize("name", WIRES)
def test_the_work_for_fragments_of_arguments_is_linear(name: str) -> None:
    """Four times the arguments is at most five times the work: nothing parses partial arguments."""
    wire = WIRES[name]
    adapter = get_adapter(wire.model)

    def reading(size: int) -> int:
        chunk = b"".join(wire.call_stream([arguments(size)]))
        return calls_of(lambda: list(adapter.iter_stream([chunk], RequestContext.for_model(wire.model))))

    assert reading(8_000) < 5 * reading(2_000)


@pytest.mark.parametrize("stage", STAGES)
def test_only_the_budgeted_modules_are_loaded(stage: str) -> None:
    """An import, a session and a first answer load their listed modules, and no other package."""
    budget = budgets()["modules"][stage]
    own, others = modules_of(STAGES[stage])
    hint = "newly loaded; if that is meant: python -m tests.benchmarks.call_counts"
    assert not set(others) - set(budget["others"]), hint
    assert not set(own) - set(budget["own"]), hint


def test_a_policy_calls_few_functions_more_than_a_session_without_one() -> None:
    """A policy calls few functions more than a session without one: a pipeline without plugins, one with five, and a
    first question after a long history with three.
    """
    turn, question = calls_of(policy.turns_of(None)), calls_of(policy.first_ask(None, 200))
    empty, five = Pipeline(), Pipeline(policy.readers())
    assert calls_of(policy.turns_of(empty)) < 1.05 * turn
    assert calls_of(policy.turns_of(five)) < 1.25 * turn
    assert calls_of(policy.first_ask(Pipeline(policy.readers(3)), 200)) < 1.75 * question
