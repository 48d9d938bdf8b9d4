"""The pytest plugin plays faults in the recordings of a suite."""

import pytest

from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.plugin_faults import KINDS, PlannedFault, _plans_for
from tests.cassettes.plugin.suites import exchange, run, suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")


def test_faults_are_played_and_counted(pytester: pytest.Pytester) -> None:
    """The test that reads its reply fails if its client does not; the run of the mark itself passes."""
    code = """
@pytest.mark.cassette
def test_asks(): assert ask("q") == "answer"
"""
    suite(pytester, code, test_asks=[exchange("q", "answer")])
    done = run(pytester, "--llm-faults=cut,reset,status429")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        [
            "*outcomes with faults*", "test_it.py::test_asks", "*survived*raised*broken*",
            "  Cut *0 *0 *2", "  Reset *0 *2 *0", "  Status429 *0 *0 *1", "  total *0 *2 *3",
        ]
    )  # fmt: skip
    assert run(pytester, "--llm-faults=earthquake").ret != 0


def test_a_fault_that_no_request_met_is_not_counted(pytester: pytest.Pytester) -> None:
    """The faults apply below httpx alone, so the test says nothing about them."""
    code = """
import urllib3

@pytest.mark.cassette
def test_asks():
    reply = urllib3.PoolManager().request("POST", URL, json=body("q")).json()
    assert reply["content"][0]["text"] == "answer"
"""
    suite(pytester, code, test_asks=[exchange("q", "answer")])
    done = run(pytester, "--llm-faults=cut")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["test_it.py::test_asks", "  total *0 *0 *0"])


def test_a_kind_for_streams_passes_over_other_replies(pytester: pytest.Pytester) -> None:
    """A suite has replies of both sorts."""
    code = """
@pytest.mark.cassette
def test_asks(): assert ask("q") == "answer"
"""
    suite(pytester, code, test_asks=[exchange("q", "answer")])
    run(pytester, "--llm-faults=dropevent").assert_outcomes(passed=1)


def test_the_kinds_are_those_of_the_plans() -> None:
    """A stream of text has all of them, and another reply has no more."""
    reply = RecordedResponse(200, b"data: {}\n\ndata: [DONE]\n\n", {"content-type": "text/event-stream"})
    planned = {
        PlannedFault(0, plan).kind for plan in _plans_for(Exchange(RecordedRequest("POST", "/v1/messages"), reply), 0)
    }
    assert planned == set(KINDS)
