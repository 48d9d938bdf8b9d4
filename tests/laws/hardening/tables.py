"""The hardening tables: how many cases are promised, how many there are, and whether the tests over them pass.

`python -m tests.laws --tables`. Cases that a loop makes are counted where they happen, by the name of what happens.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.laws.hardening import json_bombs, test_keys
from tests.laws.hardening import payloads as hardening_payloads
from tests.unit.session import test_media
from tests.unit.transport import test_fetch, test_retry_table

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Table:
    """``tests``: the node ids, without their parameters, of the tests over the table."""

    name: str
    promised: int
    cases: Callable[[], int]
    tests: tuple[str, ...]


def _parameters(test: Callable[..., Any]) -> int:
    """The rows of a test's table."""
    (mark,) = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return len(mark.args[1])


def _rounds(test: Callable[..., Any]) -> int:
    """How often the loop in a test goes round: the number in its one ``range(...)``."""
    (rounds,) = re.findall(r"in range\(([\d_]+)\)", inspect.getsource(test))
    return int(rounds)


TABLES = (
    Table(
        "injection payloads",
        200,
        lambda: len(set(hardening_payloads.PAYLOADS)),
        ("tests/laws/hardening/test_injection.py",),
    ),
    Table("key combinations", 500, lambda: len(set(test_keys.CASES)), ("tests/laws/hardening/test_keys.py",)),
    Table(
        "URLs",
        150,
        lambda: len({url for url, _ in test_fetch.REFUSED}),
        ("tests/unit/transport/test_fetch.py::test_what_is_not_public_is_never_connected_to",),
    ),
    Table(
        "rebinding flips",
        1_000,
        lambda: _rounds(test_fetch.test_a_name_that_turns_private_after_the_check_has_no_effect),
        (
            "tests/unit/transport/test_fetch.py::test_a_name_that_turns_private_after_the_check_has_no_effect",
            "tests/unit/transport/test_fetch.py::test_a_name_server_that_changes_its_mind_reaches_nothing_private",
        ),
    ),
    Table(
        "paths",
        80,
        lambda: (
            _parameters(test_media.test_nothing_else_is_read) + _parameters(test_media.test_what_lies_inside_is_read)
        ),
        (
            "tests/unit/session/test_media.py::test_nothing_else_is_read",
            "tests/unit/session/test_media.py::test_what_lies_inside_is_read",
        ),
    ),
    Table(
        "symlink races",
        10_000,
        lambda: _rounds(test_media.test_a_race_of_links_never_leads_outside),
        ("tests/unit/session/test_media.py::test_a_race_of_links_never_leads_outside",),
    ),
    Table(
        "JSON bombs",
        60,
        lambda: len({bomb.value for bomb in json_bombs.BOMBS}),
        ("tests/laws/hardening/test_json.py",),
    ),
    Table(
        "retry table",
        120,
        lambda: len({row.meets for row in test_retry_table.TABLE}),
        ("tests/unit/transport/test_retry_table.py",),
    ),
)


class _Outcomes:
    """What pytest says of each test, and how long it took."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.passed and report.when == "call":
            self.passed.append(report.nodeid)


@dataclass(frozen=True, slots=True)
class Found:
    """``enough``: as many cases as promised, and no test over them that failed or did not run."""

    table: Table
    cases: int
    passed: int
    failed: int
    seconds: float

    @property
    def enough(self) -> bool:
        return self.cases >= self.table.promised and self.passed > 0 and not self.failed


def found() -> Iterator[Found]:
    """Runs the tests of all tables, once. ``seconds`` are of the wall's clock, as pytest measures them."""
    outcomes = _Outcomes()
    ids = [str(ROOT / test) for table in TABLES for test in table.tests]
    imported = "ignore::pytest.PytestAssertRewriteWarning"  # by the tables above: their assertions are plain ones here
    with redirect_stdout(sys.stderr):
        pytest.main(["-q", "-W", imported, f"--rootdir={ROOT}", *ids], [outcomes])
    for table in TABLES:

        def over(node: str, table: Table = table) -> bool:
            return node.startswith(table.tests)

        yield Found(
            table,
            table.cases(),
            sum(map(over, outcomes.passed)),
            sum(map(over, outcomes.failed)),
            sum(seconds for node, seconds in outcomes.seconds.items() if over(node)),
        )


def lines(rows: list[Found]) -> Iterator[str]:
    yield f"{'table':<20}{'promised':>9}{'cases':>8}{'tests':>8}{'failed':>8}{'seconds':>9}"
    for row in rows:
        short = "" if row.enough else "  NOT ENOUGH"
        yield (
            f"{row.table.name:<20}{row.table.promised:>9}{row.cases:>8}{row.passed + row.failed:>8}{row.failed:>8}"
            f"{row.seconds:>9.1f}{short}"
        )
