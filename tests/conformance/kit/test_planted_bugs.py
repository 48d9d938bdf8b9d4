"""The kit finds bugs that are planted in copies of two real adapters: `planted_bugs.toml` has them by name."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing.conformance import LAWS, Effort, Mark, Subject, Wire
from dragoman.testing.conformance.suite import quiet
from tests.conformance.kit.planted import Planted, planted_bugs
from tests.laws.wires import handwritten_anthropic, handwritten_chat

WIRES: dict[str, Wire] = {"messages": handwritten_anthropic.WIRE, "chat": handwritten_chat.WIRE}
BUGS = {(bug.wire, bug.name): bug for bug in planted_bugs()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose packages can be imported, also by other processes, until the end of the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("planted_")]:
        del sys.modules[name]


def _broken_laws(bug: Planted, folder: Path, laws: set[str]) -> list[str]:
    """Return the laws that the kit finds broken at its default effort."""
    subject = Subject(bug.build(folder), (WIRES[bug.wire],), Effort())
    with quiet():
        results = [law.run(subject) for law in LAWS if str(law) in laws]
    return [str(result.law) for result in results if result.mark is Mark.BROKEN]


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", WIRES)
def test_a_copy_without_a_bug_breaks_no_law(wire: str, folder: Path) -> None:
    # A copy has the provider's name, under which the real adapter is installed.
    laws = {str(law) for law in LAWS} - {"contract: is found by its name"}
    for bug in {each.model: each for each in BUGS.values() if each.wire == wire}.values():
        untouched = Planted(wire, bug.package, bug.adapter, bug.model)
        assert _broken_laws(untouched, folder, laws) == []


def _each_bug() -> Iterator[Any]:
    """Yield a parameter for each bug: the first that breaks a law always runs, and the others in the exhaustive
    tests."""
    known: set[str] = set()
    for key, bug in BUGS.items():
        if bug.old:
            marks = [pytest.mark.exhaustive] if bug.law in known else []
            known.add(bug.law)
            yield pytest.param(*key, marks=marks)


@pytest.mark.parametrize(("wire", "name"), list(_each_bug()))
def test_a_planted_bug_is_found(wire: str, name: str, folder: Path) -> None:
    bug = BUGS[wire, name]
    assert _broken_laws(bug, folder, {bug.law}) == [bug.law]


def test_the_bugs_are_many_and_break_laws_of_each_chapter() -> None:
    laws = {bug.law for bug in BUGS.values() if bug.old}
    assert {law.partition(":")[0] for law in laws} == {law.chapter for law in LAWS}
    assert all(sum(bug.wire == wire and bool(bug.old) for bug in BUGS.values()) >= 30 for wire in WIRES)
