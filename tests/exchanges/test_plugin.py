"""How a run reports the tests that skip without the recorded exchanges."""

from pathlib import Path

import pytest

from tests import exchanges

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from tests.exchanges import load_or_skip

@pytest.fixture(params=["anthropic", "google"])
def recorded(request):
    return load_or_skip(request.param)

@pytest.mark.exchanges
def test_reads_through_a_fixture(recorded):
    pass

@pytest.mark.exchanges
@pytest.mark.parametrize("provider", ["anthropic", "mistral"])
def test_reads_by_itself(provider):
    load_or_skip(provider)

@pytest.mark.exchanges
def test_skips_for_another_reason():
    pytest.skip("no adapter")
"""


def run_tests(pytester: pytest.Pytester) -> pytest.RunResult:
    pytester.makeini("[pytest]\nmarkers = exchanges: reads the recorded exchanges")
    pytester.makepyfile(TESTS)
    return pytester.runpytest_inprocess("-ra", "-p", "tests.exchanges.plugin", "-p", "no:randomly")


def test_skips_without_the_recordings_are_one_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whichever test skips, and of whichever provider; a skip for another reason keeps its own line."""
    monkeypatch.setenv(exchanges.VARIABLE, str(tmp_path / "absent"))
    result = run_tests(pytester)
    result.assert_outcomes(skipped=5)
    skips = [line for line in result.outlines if line.startswith("SKIPPED")]
    assert [line.partition("]")[0] for line in skips] == ["SKIPPED [4", "SKIPPED [1"]
    assert skips[0].endswith(exchanges.MISSING)
    assert skips[1].endswith("no adapter")


def test_skips_in_spite_of_recordings_fail(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder exists, so a test that reads nothing from it would hide a fault."""
    monkeypatch.setenv(exchanges.VARIABLE, str(tmp_path))
    result = run_tests(pytester)
    assert result.parseoutcomes().keys() <= {"failed", "errors"}
    assert sum(result.parseoutcomes().values()) == 5
