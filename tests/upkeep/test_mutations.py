"""The mutation tests: which changes they try, how they run them, and that their data is current."""

import os
import subprocess
import sys

import pytest

from tests.upkeep.mutations.operators import compile_mutant, list_mutants
from tests.upkeep.mutations.settings import read_settings
from tests.upkeep.repository import ROOT


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("a is None", ["a is None -> a is not None"]),
        ("a <= b < c", ["a <= b < c -> a < b < c", "a <= b < c -> a > b < c", "a <= b < c -> a <= b <= c",
                        "a <= b < c -> a <= b >= c"]),
        ("a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
        ("not a", ["not a -> a"]),
        ("a + 1", ["a + 1 -> a - 1", "1 -> 2"]),
        ("a | b", ["a | b -> b | a"]),
        ("{**a, **b}", ["{**a, **b} -> {**b, **a}"]),
        ("f(a, key=b)", ["f(a, key=b) -> f(a)"]),
        ("any(a)", ["any(a) -> all(a)"]),
        ("b if a else c", ["a -> not a"]),
        ("[a for a in b if a]", ["a -> not a"]),
        ("[True, 'word']", ["True -> False", "'word' -> 'wordXX'"]),
        ("Status.FREE", [f"Status.FREE -> [member for member in Status if member is not Status.FREE][{at}]"
                         for at in (0, -1)]),
        ("'two words'", []),
        ("f'{a} more'", []),
        ("ValueError('why')", []),
    ],
)  # fmt: skip
def test_an_expression_has_these_mutants(source: str, changes: list[str]) -> None:
    """Comparisons, logic, arithmetic, constants, members of enums, and arguments; texts for people stay."""
    assert [mutant.change for mutant in list_mutants(f"x = {source}")] == changes


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("return a", ["return a -> return None"]),
        ("return None", []),
        ("a += b", ["a += b -> a -= b", "a += b -> pass"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("a = b", []),
        ("f()", ["f() -> pass"]),
        ("raise Error", ["raise Error -> pass"]),
        ("if a:\n        return", ["a -> not a"]),
        ("assert a > b", []),
        ("'A docstring.'", []),
    ],
)
def test_a_statement_has_these_mutants(source: str, changes: list[str]) -> None:
    """A statement with an effect is dropped; assertions serve type checkers, so they stay."""
    mutants = list_mutants(f"class C:\n  def f(self, a: int = None) -> None:\n    {source}\n")
    assert [mutant.change for mutant in mutants] == changes
    assert {(mutant.where, mutant.in_function) for mutant in mutants} <= {("C.f", True)}


def test_each_mutant_is_one_change() -> None:
    """Each gives another program than the source and than all others."""
    source = "def f(a, b=1):\n    return a + b if a else -b\n"
    codes = [compile_mutant(source, "f.py", mutant.index) for mutant in list_mutants(source)]
    results = set()
    for code in codes:
        names: dict[str, object] = {}
        exec(code, names)
        function = names["f"]
        assert callable(function)
        results.add(tuple(function(a) for a in range(6)))
    assert (-1, 2, 3, 4, 5, 6) not in results
    assert len(results) == len(codes) == 5


def test_the_data_names_what_exists() -> None:
    """Every file, test and explained change; an explanation whose change no longer exists must be deleted."""
    settings = read_settings()
    paths = {*settings.tests, *(test for tests in settings.tests.values() for test in tests)}
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []
    known = {
        (path, mutant.where, mutant.change)
        for path in {path for path, _, _ in settings.explained}
        for mutant in list_mutants((ROOT / path).read_text(encoding="utf-8"))
    }
    assert settings.explained.keys() - known == set()
    assert all(len(reason) > 20 for reason in settings.explained.values())


_PROGRAM = """
from tests.upkeep.mutations.operators import list_mutants
from tests.upkeep.mutations.runner import run
from tests.upkeep.repository import ROOT

path = "src/dragoman/session/history.py"
mutants = list_mutants((ROOT / path).read_text(encoding="utf-8"))
in_class, in_function = (next(each for each in mutants if each.where == name) for name in ("History", "History.billed"))
for test in ("tests/unit/session/test_history.py", "tests/unit/pricing/test_match.py"):
    for mutant, outcome in run(path, [test], [in_class, in_function]):
        print(test.rpartition("/")[2], mutant.where, outcome, flush=True)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_mutant_is_killed_by_a_test_that_concerns_it() -> None:
    """It survives an unrelated test. Both hold for a replaced function and for a changed module."""
    result = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert sorted(result.stdout.splitlines()) == [
        "test_history.py History killed",
        "test_history.py History.billed killed",
        "test_match.py History survived",
        "test_match.py History.billed survived",
    ], result.stdout + result.stderr
