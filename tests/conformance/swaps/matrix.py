"""The swap matrix: `python -m tests.conformance.swaps.matrix`, every source by every target.

Each history of a source (the recorded conversations with all their prefixes, and generated ones) is projected onto each
target, and the request is judged by the target's rules and by its official SDK's types. A row is a source, a column a
target; a cell is the number of rejected requests.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

from tests.conformance.swaps.histories import (
    TARGETS,
    History,
    faults,
    generated_histories,
    recorded_histories,
    recorded_messages,
)
from tests.exchanges import exchanges_folder

DEFAULT = 2_000
_LEAST_GENERATED = 4
"""One of this many histories is generated even if the recordings alone would be enough."""
_WIDTH = 9


@dataclass(slots=True)
class MatrixCell:
    """All histories of one source, sent to one target."""

    source: str
    target: str
    tried: int = 0
    rejected: int = 0
    faults: list[str] = field(default_factory=list)


@lru_cache(maxsize=1)
def histories(source: str, count: int, number: int) -> tuple[History, ...]:
    """At least ``count`` histories of a source: all that are recorded, the rest generated."""
    found: list[History] = []
    mixed = []
    if (exchanges_folder() / f"{source}.jsonl.gz").is_file():
        found = list(recorded_histories(source, prefixes=True))
        mixed = recorded_messages(source)
    more = max(count - len(found), count // _LEAST_GENERATED)
    seeds = 0
    while more > 0:
        drawn = generated_histories(source, more, number=number + seeds, mixed=mixed)
        found += drawn
        more -= len(drawn)  # Hypothesis stops early when it has seen all
        seeds += 1
    return tuple(found)


def check_cell(source: str, target: str, count: int, number: int) -> MatrixCell:
    """All histories of a source for one target."""
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # losses are expected here
    cell = MatrixCell(source, target)
    for history in histories(source, count, number):
        found = faults(history, target)
        cell.tried += 1
        if found:
            cell.rejected += 1
            cell.faults.append(f"{source} {history.name} -> {target}: {found[0]}")
    return cell


def format_table(cells: Sequence[MatrixCell]) -> str:
    """Rows of sources, columns of targets: rejected requests, and the number of trials in each row."""
    by_pair = {(cell.source, cell.target): cell for cell in cells}
    sources = list(dict.fromkeys(cell.source for cell in cells))
    targets = list(dict.fromkeys(cell.target for cell in cells))
    lines = [f"{'source':<18}{'tried each':>11}" + "".join(f"{target[: _WIDTH - 1]:>{_WIDTH}}" for target in targets)]
    for source in sources:
        row = [by_pair[source, target] for target in targets]
        tried = min(cell.tried for cell in row)
        lines.append(f"{source:<18}{tried:>11}" + "".join(f"{cell.rejected:>{_WIDTH}}" for cell in row))
    whole, rejected = sum(cell.tried for cell in cells), sum(cell.rejected for cell in cells)
    return "\n".join([*lines, f"{whole} requests of {len(cells)} pairs, {rejected} rejected"])


def kinds(cells: Iterable[MatrixCell], shown: int) -> Iterator[str]:
    """The rejections by message, most frequent first, each with one history as an example."""
    counted: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for cell in cells:
        for fault in cell.faults:
            pattern = "".join("#" if letter.isdigit() else letter for letter in fault.partition(": ")[2])[:90]
            key = (cell.target, pattern)
            counted[key] += 1
            example.setdefault(key, fault)
    for key, times in counted.most_common(shown):
        yield f"{times} x {example[key][:400]}"


def main() -> int:
    """The exit status: 1 if a request was rejected."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.swaps.matrix", description=__doc__)
    parser.add_argument("--histories", type=int, default=DEFAULT, help="how many for each pair, at least")
    parser.add_argument("--seed", type=int, default=0, help="other generated histories")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--show", type=int, default=0, help="how many kinds of rejections to show")
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only these targets")
    parser.add_argument("sources", nargs="*", metavar="source", help=f"only these of {', '.join(TARGETS)}")
    chosen = parser.parse_args()
    if unknown := set(chosen.sources) - set(TARGETS):
        parser.error(f"no such source: {', '.join(sorted(unknown))}")
    started = time.monotonic()
    cells: list[MatrixCell] = []
    targets = chosen.target or list(TARGETS)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        rows = [
            pool.submit(check_row, source, targets, chosen.histories, chosen.seed)
            for source in chosen.sources or TARGETS
        ]
        for done in rows:
            cells += done.result()
            latest = cells[-1].source
            rejected = sum(cell.rejected for cell in cells if cell.source == latest)
            sys.stderr.write(f"{time.monotonic() - started:7.0f} s  {latest}: {rejected} rejected\n")
    sys.stdout.write("\n".join([format_table(cells), *kinds(cells, chosen.show)]) + "\n")
    return 1 if any(cell.rejected for cell in cells) else 0


def check_row(source: str, targets: Sequence[str], count: int, number: int) -> list[MatrixCell]:
    """One source for all targets, in one process: so that its histories are generated once."""
    return [check_cell(source, target, count, number) for target in targets]


if __name__ == "__main__":
    sys.exit(main())
