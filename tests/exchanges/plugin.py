"""Reports how many recorded exchanges a test run read, and turns a skip into a failure if they are there.

A test with the marker `exchanges` may skip for one reason only: the folder of recordings is absent. All such skips are
one line of pytest's summary, which folds skips with the same place and reason.
"""

from collections.abc import Generator
from typing import Any

import pytest

from tests import exchanges

_KEY = "exchanges_read"
_read: dict[str, int] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails a test that reads recordings and skips although they are there. Gives skips without them one place."""
    report = yield
    if not report.skipped or not item.get_closest_marker("exchanges"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if exchanges.exchanges_folder().is_dir():
        report.outcome = "failed"
        report.longrepr = f"{exchanges.exchanges_folder()} is there, but a test that reads it skipped: {reason}"
    elif reason.endswith(exchanges.MISSING):
        report.longrepr = (exchanges.__file__, exchanges.load_or_skip.__code__.co_firstlineno, reason)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the counts of a worker to the process that reports."""
    _read.update(exchanges.read_counts())
    workeroutput: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput[_KEY] = _read


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collects the counts of a worker that is done."""
    _read.update(getattr(node, "workeroutput", {}).get(_KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the number of exchanges, or that there are none."""
    if _read:
        total = sum(_read.values())
        terminalreporter.write_line(f"recorded exchanges read: {total:,}, of {len(_read)} providers")
    else:
        terminalreporter.write_line("recorded exchanges read: none")
