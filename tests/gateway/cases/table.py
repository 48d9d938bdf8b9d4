"""The table of cases: what goes wrong in gateways, and the tests that reproduce it."""

import ast
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    case: str
    tests: tuple[str, ...]
    """The tests that reproduce it, as ``file::function``."""

    @property
    def missing(self) -> list[str]:
        """The tests that do not exist."""
        return [test for test in self.tests if test not in _tests_in(test.partition("::")[0])]


def read_cases() -> list[Case]:
    rows = tomllib.loads((FOLDER / "cases.toml").read_text(encoding="utf-8"))
    return [Case(name, row["case"], tuple(row["tests"])) for name, row in rows.items()]


@cache
def _tests_in(file: str) -> frozenset[str]:
    """Return the tests of a file. Its functions and those of its classes are found without importing it."""
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(f"{file}::{each.name}" for each in functions if each.name.startswith("test_"))


def report() -> str:
    """Return the number of cases of each kind, and of all; those without a test are named."""
    cases = read_cases()
    kinds = Counter(case.id.partition("-")[0] for case in cases if not case.missing)
    lines = [f"{kind} {number}" for kind, number in kinds.items()]
    lines += [f"{case.id}: there is no {test}" for case in cases for test in case.missing]
    tests = {test for case in cases for test in case.tests}
    return "\n".join([*lines, f"{kinds.total()} of {len(cases)} cases are reproduced, by {len(tests)} tests"])
