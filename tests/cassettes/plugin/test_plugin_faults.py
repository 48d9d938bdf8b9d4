"""The pytest plugin plays faults in the recordings of a suite."""

import pytest

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
