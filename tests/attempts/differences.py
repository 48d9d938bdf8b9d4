"""Where the roads do not agree: what they spend, count under limits and report in each ending, beside a session.

`differences.yaml` has a verdict for each difference, written by hand: ``right`` or ``wrong``, and why. One may stand
for several roads and endings. `python -m tests.attempts.differences` shows what no verdict covers, and what none needs.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.attempts.endings import ENDINGS
from tests.attempts.recording import Cell, RoadFile
from tests.attempts.table import cells

FILE = Path(__file__).with_name("differences.yaml")
ASPECTS = ("spend", "limits", "events")
ANY = "any"
SESSION = "ask"
"""The road that the others are compared with."""


@dataclass(frozen=True, order=True)
class Difference:
    """A road does something else than a session, in the same ending."""

    aspect: str
    ending: str
    road: str
    does: str
    session_does: str


@dataclass(frozen=True)
class Verdict:
    """``endings`` and ``roads`` are names, or ``any``: each that differs."""

    aspect: str
    endings: tuple[str, ...]
    roads: tuple[str, ...]
    verdict: str

    def covers(self, difference: Difference) -> bool:
        return (
            self.aspect == difference.aspect
            and _names(self.endings, difference.ending)
            and _names(self.roads, difference.road)
        )


@cache
def find() -> list[Difference]:
    """Return all differences between a session and the other roads, as they are recorded."""
    files = {road: RoadFile.read(road) for road in cells()}
    return sorted({each for ending in ENDINGS for each in _differences_in(files, ending)})


def _differences_in(files: dict[str, RoadFile], ending: str) -> Iterator[Difference]:
    session = files[SESSION]
    for road, file in files.items():
        for (name, way), cell in file.cells.items():
            if name != ending:
                continue
            for aspect in ASPECTS:
                expected = _meaning(session, aspect, session.cells[ending, way])
                does = _meaning(file, aspect, cell)
                if does != expected:
                    yield Difference(aspect, ending, road, does, expected)


def _meaning(file: RoadFile, aspect: str, cell: Cell) -> str:
    """Return what a road did, with words in place of amounts of its own."""
    whole = next(each for (ending, _), each in file.cells.items() if ending == "whole")
    used, held = _tokens(whole["spend"]), _tokens(whole["held while asked"])
    text = str(cell[aspect])
    if isinstance(cell[aspect], dict):
        text = ", ".join(f"{who}: {amount}" for who, amount in cell[aspect].items())
    words = {2 * used: "twice what was used", used: "what was used", held: "what was held"} if used else {}
    text = re.sub(r"(\d+) tokens", lambda each: words.get(int(each[1]), each[0]), text)
    if aspect != "spend":
        return text
    text = re.sub(r", 1 of requests| of requests", "", text)  # only a gateway counts them, and one is not news
    return text if text.endswith(": 0 tokens, $0.000511") else re.sub(r", \$[\d.]+", "", text)


def _tokens(value: Any) -> int:
    found = re.search(r"(\d+) tokens", str(value))
    return int(found[1]) if found else 0


def verdicts() -> list[Verdict]:
    document: list[dict[str, Any]] = yaml.safe_load(FILE.read_text("utf-8"))
    return [
        Verdict(each["aspect"], _as_tuple(each["endings"]), _as_tuple(each["roads"]), each["verdict"])
        for each in document
    ]


def _as_tuple(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _names(names: Iterable[str], name: str) -> bool:
    return ANY in names or name in names


def uncovered() -> list[Difference]:
    """Return the differences without a verdict."""
    known = verdicts()
    return [each for each in find() if not any(verdict.covers(each) for verdict in known)]


def unneeded() -> list[str]:
    """Return what verdicts name although nothing differs there any more."""
    differences, found = find(), []
    for verdict in verdicts():
        covered = [each for each in differences if verdict.covers(each)]
        seen = {each.ending for each in covered} | {each.road for each in covered} | ({ANY} if covered else set())
        found += [
            f"{verdict.aspect}, {name}: {verdict.verdict}"
            for name in (*verdict.endings, *verdict.roads)
            if name not in seen
        ]
    return found


if __name__ == "__main__":
    for each in uncovered():
        sys.stdout.write(f"{each.aspect} | {each.ending} | {each.road} | {each.does} | not {each.session_does}\n")
    sys.stdout.write("\n".join(["", *unneeded(), ""]))
