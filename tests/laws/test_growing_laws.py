"""What grows with a history is what the whole history gives."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, Message, ToolDefinition, tool
from dragoman.adapter.context import GrowingMessages, HistoryMeasures
from dragoman.adapter.facts.token_estimate import measure_messages, measure_request
from dragoman.canonical.message import Role
from dragoman.canonical.usage import Usage
from dragoman.errors import ToolSchemaError
from dragoman.session.config import merge_options
from dragoman.session.cost import total_cost, total_usage
from dragoman.session.history import History, RequestHistory, apply_summaries
from dragoman.testing import strategies
from dragoman.tools import toolbox
from dragoman.tools.toolbox import Toolbox

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TOOL = ToolDefinition(name="look", description="Looks.", input_schema={"type": "object", "properties": {}})


@st.composite
def _grown(draw: st.DrawFn) -> tuple[list[Message], list[int]]:
    """A history with usages and summaries, and where it is read meanwhile."""
    history: list[Message] = []
    for message in draw(strategies.histories()):
        changes: dict[str, Any] = {}
        if message.role is Role.ASSISTANT and draw(st.booleans()):
            cost = draw(st.sampled_from([None, Decimal(0), Decimal("0.001")]))
            status = {None: "unpriced", Decimal(0): "free"}.get(cost, "priced")
            changes["usage"] = Usage(input_tokens=3, output_tokens=2, cost_usd=cost, cost_status=status)
            changes |= {"model": draw(st.sampled_from(["a:x", "b:y"])), "provider": "a"}
        if history and draw(st.integers(0, 4)) == 0:
            changes["summary_of"] = tuple(draw(st.sets(st.sampled_from([each.id for each in history]), min_size=1)))
        metadata = message.metadata.model_copy(update=changes)
        history.append(message.model_copy(update={"metadata": metadata}) if changes else message)
    stops = draw(st.lists(st.integers(0, len(history)), max_size=4))
    return history, [*sorted(stops), len(history)]


@given(_grown())
def test_a_history_that_grows_shows_sends_and_costs_what_the_whole_one_does(
    grown: tuple[list[Message], list[int]],
) -> None:
    """The visible messages, the usage and the cost are the same, wherever they were read before."""
    messages, stops = grown
    history, start = History([]), 0
    for stop in stops:
        history.add(messages[start:stop])
        start = stop
        for attempt in messages[:1] if stop % 2 else ():
            history.attempts.record(attempt)
        billed = [*messages[:stop], *history.attempts.all]
        assert list(history.to_send()) == apply_summaries(messages[:stop])
        assert history.usage == total_usage(billed)
        assert history.cost == total_cost(billed)


@given(_grown(), st.booleans())
def test_measures_grow_with_a_history(grown: tuple[list[Message], list[int]], with_tools: bool) -> None:
    """A history has the measures that it has when it is measured at once, also after another one was measured."""
    messages, stops = grown
    measures, tools = HistoryMeasures(), [TOOL] if with_tools else []
    for stop in (*stops, *stops):
        growing = GrowingMessages(messages[:stop])
        growing.measures = ref(measures)
        assert measure_request(growing, tools) == measure_request(messages[:stop], tools)
        assert measure_messages(growing).remote == measure_messages(messages[:stop]).remote


@given(_grown())
def test_a_history_without_files_is_sent_as_it_is(grown: tuple[list[Message], list[int]]) -> None:
    messages, stops = grown
    files = RequestHistory(None)
    for stop in (*stops, 0, *stops):
        plain = [each for each in messages[:stop] if "file_ref" not in each.model_dump_json()]
        assert all(one is other for one, other in zip(files.read(plain), plain, strict=True))


def test_a_definition_is_checked_once_until_its_schema_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    problems = ToolDefinition.problems
    monkeypatch.setattr(ToolDefinition, "problems", lambda self: checks.append(self.name) or problems(self))

    @tool
    def find(path: str) -> str:
        """Find it."""
        return path

    checks.clear()
    for _ in range(3):
        assert len(Toolbox([find])) == 1
    assert checks == ["find"]
    find.definition.input_schema["oneOf"] = []
    with pytest.raises(ToolSchemaError, match="oneOf"):
        Toolbox([find])
    del find.definition.input_schema["oneOf"]
    assert len(Toolbox([find])) == 1


def test_a_checked_definition_is_forgotten_with_it() -> None:
    @tool
    def find(path: str) -> str:
        """Find it."""
        return path

    Toolbox([find])
    key = id(find.definition)
    assert key in toolbox._CHECKED
    del find
    assert key not in toolbox._CHECKED


def test_options_of_a_turn_are_merged_once_and_never_confused() -> None:
    """1, 1.0 and True are equal, and different options."""
    base = AdapterOptions(max_output_tokens=9)
    first = merge_options(base, {"temperature": 1})
    assert merge_options(base, {"temperature": 1}) is first
    assert type(merge_options(base, {"temperature": 1.0}).temperature) is float
    assert merge_options(AdapterOptions(), {"temperature": 1}).max_output_tokens is None
    assert merge_options(base, {"temperature": 1}, stream=True).stream
    labels = {"team": "one"}
    assert merge_options(base, {"metadata": labels}).metadata == {"team": "one"}
    labels["team"] = "two"
    assert merge_options(base, {"metadata": labels}).metadata == {"team": "two"}
