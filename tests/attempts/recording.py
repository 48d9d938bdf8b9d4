"""The recorded cells, one file for each road, and their comparison with what happens.

A cell that is wrong has a `should`: what is right, field by field, each with its reason. It stands beside the recorded
behaviour, which is what the test expects until the behaviour is mended; then the test asks to move it into place.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).with_name("recorded")
_HEADING = """\
# Written by `python -m tests.attempts --write`, except for `should`, which is written by hand and kept: what is right
# where the recorded behaviour is wrong, with the reason. `requests` are the requests that the provider saw, by letter.
"""
FIELDS = ("kept", "spend", "still held", "held while asked", "limits", "events", "wire", "store", "ignored errors")

Cell = dict[str, Any]


@dataclass
class Mark:
    """What is right in place of the recorded value of ``field``."""

    field: str
    value: Any
    why: str


@dataclass
class RoadFile:
    """``cells`` are by ending and way; ``marks`` too."""

    path: Path
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    marks: dict[tuple[str, str], list[Mark]] = field(default_factory=dict)

    @classmethod
    def read(cls, road: str) -> "RoadFile":
        found = cls(FOLDER / f"{road.replace(',', '').replace(' ', '_')}.yaml")
        if not found.path.exists():
            return found
        document = yaml.safe_load(found.path.read_text("utf-8"))
        letters = document["requests"]
        for ending, ways in document["endings"].items():
            for names, block in ways.items():
                for way in names.split(" and "):
                    cell = dict(block)
                    marks = cell.pop("should", [])
                    cell["wire"] = [letters[letter] for letter in cell["wire"].split()]
                    found.cells[ending, way] = cell
                    found.marks[ending, way] = [Mark(each["field"], each["is"], each["why"]) for each in marks]
        return found

    def write(self) -> None:
        letters: dict[str, str] = {}
        endings: dict[str, dict[str, Any]] = {}
        for (ending, way), cell in self.cells.items():
            block = {name: cell[name] for name in FIELDS if name in cell}
            block["wire"] = " ".join(letters.setdefault(line, _letter(len(letters))) for line in cell["wire"])
            if marks := self.marks.get((ending, way)):
                block["should"] = [{"field": each.field, "is": each.value, "why": each.why} for each in marks]
            ways = endings.setdefault(ending, {})
            same = next((names for names, other in ways.items() if other == block), None)
            if same is not None:
                ways = endings[ending] = {
                    (f"{names} and {way}" if names == same else names): other for names, other in ways.items()
                }
            else:
                ways[way] = block
        requests = {letter: line for line, letter in letters.items()}
        text = yaml.dump(
            {"requests": requests, "endings": endings}, Dumper=_Dumper, sort_keys=False, width=116, allow_unicode=True
        )
        self.path.write_text(_HEADING + "\n" + text, "utf-8")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def value_at(cell: Cell, path: str) -> Any:
    """Return the value of a field of a cell, such as ``kept.first.rows``; None if it is not there."""
    value: Any = cell
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def problems(road: str, ending: str, way: str, actual: Cell, recorded: RoadFile) -> list[str]:
    """Return what a cell does that is not recorded."""
    cell, marks = recorded.cells.get((ending, way)), recorded.marks.get((ending, way), ())
    if cell is None:
        return [f"{road}, {ending}, {way}: not recorded"]
    found = []
    for name in sorted({*cell, *actual}, key=lambda each: FIELDS.index(each)):
        if cell.get(name) != actual.get(name):
            righted = [each.field for each in marks if value_at(actual, each.field) == each.value]
            hint = f"; it is now right, so move `should` into place: {', '.join(righted)}" if righted else ""
            place = f"{road}, {ending}, {way}: {name}"
            found.append(f"{place} is recorded as\n  {cell.get(name)}\nand is\n  {actual.get(name)}{hint}")
    return found


def stale_marks(recorded: RoadFile) -> Iterable[str]:
    """Return the marks that the recorded behaviour already fulfils, or that have no reason."""
    for (ending, way), marks in recorded.marks.items():
        for each in marks:
            if value_at(recorded.cells[ending, way], each.field) == each.value or not each.why:
                yield f"{recorded.path.name}, {ending}, {way}: {each.field}"
