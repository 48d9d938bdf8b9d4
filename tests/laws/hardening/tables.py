"""The hardening tables: how many cases are promised, how many there are, and whether their tests pass.

`python -m tests.laws --tables`. Where a test tries its cases in a loop, the rounds of the loop are counted.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.laws.hardening import json_bombs, test_injection, test_json, test_keys
from tests.laws.hardening import payloads as hardening_payloads
from tests.unit.session import test_media
from tests.unit.transport import test_retry_table
from tests.unit.transport.fetch import test_fetch_addresses

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Table:
    """``tests``: the functions, or modules of them, that try the cases."""

    name: str
    promised: int
    cases: Callable[[], int]
    tests: tuple[FunctionType | ModuleType, ...]

    @property
    def node_ids(self) -> tuple[str, ...]:
        """Without the parameters of the tests."""
        return tuple(map(_node_id, self.tests))


def _node_id(test: FunctionType | ModuleType) -> str:
    if isinstance(test, ModuleType):
        return f"{test.__name__.replace('.', '/')}.py"
    return f"{test.__module__.replace('.', '/')}.py::{test.__name__}"


def _parameters(test: Callable[..., Any]) -> int:
    """The rows of a test's table."""
    (mark,) = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    return len(mark.args[1])


def _rounds(test: Callable[..., Any]) -> int:
    """How often the loop in a test runs: the number in its only ``range(...)``."""
    (rounds,) = re.findall(r"in range\(([\d_]+)\)", inspect.getsource(test))
    return int(rounds)


TABLES = (
    Table("injection payloads", 200, lambda: len(set(hardening_payloads.PAYLOADS)), (test_injection,)),
    Table("key combinations", 500, lambda: len(set(test_keys.CASES)), (test_keys,)),
    Table(
        "URLs",
        150,
        lambda: len({url for url, _ in test_fetch_addresses.REFUSED}),
        (test_fetch_addresses.test_a_private_address_is_never_connected_to,),
    ),
    Table(
        "rebinding flips",
        1_000,
        lambda: _rounds(test_fetch_addresses.test_a_name_that_turns_private_after_the_check_has_no_effect),
        (
            test_fetch_addresses.test_a_name_that_turns_private_after_the_check_has_no_effect,
            test_fetch_addresses.test_dns_rebinding_reaches_nothing_private,
        ),
    ),
    Table(
        "paths",
        80,
        lambda: (
            _parameters(test_media.test_other_files_are_not_read)
            + _parameters(test_media.test_files_inside_the_workspace_are_read)
        ),
        (test_media.test_other_files_are_not_read, test_media.test_files_inside_the_workspace_are_read),
    ),
    Table(
        "symlink races",
        10_000,
        lambda: _rounds(test_media.test_a_race_of_links_never_leads_outside),
        (test_media.test_a_race_of_links_never_leads_outside,),
    ),
    Table("JSON bombs", 60, lambda: len({bomb.value for bomb in json_bombs.BOMBS}), (test_json,)),
    Table("retry table", 120, lambda: len({row.name for row in test_retry_table.TABLE}), (test_retry_table,)),
)


class _Outcomes:
    """The result of each test, and how long it took."""

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
class TableResult:
    """``enough``: as many cases as promised, and no test over them that failed or did not run."""

    table: Table
    cases: int
    passed: int
    failed: int
    seconds: float

    @property
    def enough(self) -> bool:
        return self.cases >= self.table.promised and self.passed > 0 and not self.failed


def check_tables() -> Iterator[TableResult]:
    """Runs the tests of all tables, once. ``seconds`` are wall-clock time, as pytest measures it."""
    outcomes = _Outcomes()
    ids = [str(ROOT / test) for table in TABLES for test in table.node_ids]
    # The tables above import the tests, so pytest cannot rewrite their assertions.
    imported = "ignore::pytest.PytestAssertRewriteWarning"
    with redirect_stdout(sys.stderr):
        pytest.main(["-q", "-W", imported, f"--rootdir={ROOT}", *ids], [outcomes])
    for table in TABLES:

        def over(node: str, table: Table = table) -> bool:
            return node.startswith(table.node_ids)

        yield TableResult(
            table,
            table.cases(),
            sum(map(over, outcomes.passed)),
            sum(map(over, outcomes.failed)),
            sum(seconds for node, seconds in outcomes.seconds.items() if over(node)),
        )


def lines(rows: list[TableResult]) -> Iterator[str]:
    yield f"{'table':<20}{'promised':>9}{'cases':>8}{'tests':>8}{'failed':>8}{'seconds':>9}"
    for row in rows:
        short = "" if row.enough else "  TOO FEW OR FAILED"
        yield (
            f"{row.table.name:<20}{row.table.promised:>9}{row.cases:>8}{row.passed + row.failed:>8}{row.failed:>8}"
            f"{row.seconds:>9.1f}{short}"
        )
