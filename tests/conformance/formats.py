"""Recorded conversations through every format and back: `python -m tests.conformance.formats`.

A row is a format: how many conversations went through it, in how many something came back changed that no loss names,
how many documents were not written again as they were, and the losses by their kinds.
"""

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from dragoman import Message
from dragoman.formats import Written, from_chatml, from_cmf, from_native, from_umf, to_chatml, to_cmf, to_native, to_umf
from tests.conformance.handover import TARGETS, recorded, target_adapter
from tests.exchanges import folder
from tests.laws.return_trip import Trip, _said

Writer = Callable[[list[Message]], Written[Any]]
Reader = Callable[[Any], list[Message]]

NATIVE = ("openai-chat", "openai", "anthropic", "ollama", "google", "mistral", "cohere", "bedrock")
SOURCES = tuple(source for source in TARGETS if source != "local")


def writer(name: str) -> Writer:
    shapes: dict[str, Writer] = {"cmf": to_cmf, "umf": to_umf, "chatml": to_chatml}
    return shapes.get(name) or (lambda history: to_native(name, history, model=_model(name)))


def reader(name: str) -> Reader:
    shapes: dict[str, Reader] = {"cmf": from_cmf, "umf": from_umf, "chatml": from_chatml}
    return shapes.get(name) or (lambda data: from_native(name, data, model=_model(name)))


FORMATS = ("cmf", "umf", "chatml", *NATIVE)


@dataclass(slots=True)
class Row:
    """What became of conversations in one format."""

    name: str
    tried: int = 0
    unnamed: int = 0
    rewritten: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def judge(row: Row, name: str, history: list[Message]) -> None:
    """One conversation, there and back and there again."""
    to, of = writer(row.name), reader(row.name)
    row.tried += 1
    written = to(history)
    row.losses.update(f"{loss.kind} ({loss.severity})" for loss in written.losses)
    back = of(written.data if row.name == "chatml" else json.dumps(written.data))
    unsaid = Trip(list(_said(history)), [said for _, said in _said(back)], written.losses).unsaid
    if unsaid or (row.name == "cmf" and back != history):
        row.unnamed += 1
        row.faults.append(f"{row.name} {name}: came back changed, {str(unsaid)[:300]}")
    if to(back).data != written.data:
        row.rewritten += 1
        row.faults.append(f"{row.name} {name}: was not written again as it was")


def conversations(source: str, most: int | None) -> Iterator[tuple[str, list[Message]]]:
    """Those that were recorded with a provider; none where the recordings are absent."""
    if (folder() / f"{source.removesuffix('-interactions')}.jsonl.gz").is_file():
        for history in islice(recorded(source, prefixes=False), most):
            yield f"{source} {history.name}", history.messages


def judged(sources: Iterable[str], most: int | None) -> list[Row]:
    rows = [Row(name) for name in FORMATS]
    for source in sources:
        for name, history in conversations(source, most):
            for row in rows:
                judge(row, name, history)
    return rows


def _model(provider: str) -> str:
    by_adapter = {target_adapter(target): model for target, model in TARGETS.items()}
    return by_adapter[provider].partition(":")[2]


def main() -> int:
    """The exit status: 1 where something was changed that no loss names."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.formats", description=__doc__)
    parser.add_argument("--most", type=int, help="of each source (default: all)")
    parser.add_argument("--show", type=int, default=5, help="how many faults to show")
    parser.add_argument("sources", nargs="*", metavar="source", help=f"only these of {', '.join(SOURCES)}")
    chosen = parser.parse_args()
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # losses are the point here
    rows = judged(chosen.sources or SOURCES, chosen.most)
    for row in rows:
        sys.stdout.write(f"{row.name:<12}{row.tried:>6} tried{row.unnamed:>6} unnamed{row.rewritten:>6} rewritten\n")
        for kind, times in row.losses.most_common():
            sys.stdout.write(f"{'':<12}{times:>6} {kind}\n")
    for fault in [fault for row in rows for fault in row.faults][: chosen.show]:
        sys.stdout.write(fault + "\n")
    return 1 if any(row.unnamed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
