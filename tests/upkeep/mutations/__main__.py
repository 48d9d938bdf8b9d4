"""`python -m tests.upkeep.mutations [FILE...] [--sample N] [--list]`: print the mutants that no test kills."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.upkeep.mutations.operators import Mutant, list_mutants
from tests.upkeep.mutations.runner import SURVIVED, run
from tests.upkeep.mutations.settings import Settings, read_settings
from tests.upkeep.repository import ROOT


def main() -> int:
    settings = read_settings()
    parser = argparse.ArgumentParser(prog="python -m tests.upkeep.mutations", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"files of {settings.source}; all by default")
    parser.add_argument("--sample", type=int, metavar="N", help="run at most N mutants of each file")
    parser.add_argument("--list", action="store_true", help="list the mutants and run none")
    options = parser.parse_args()
    if unknown := [file for file in options.files if file not in settings.tests]:
        parser.error(f"{settings.source} names no tests for {', '.join(unknown)}")
    total: Counter[str] = Counter()
    began = time.monotonic()
    for path in options.files or settings.tests:
        mutants = _sample(list_mutants((ROOT / path).read_text(encoding="utf-8")), options.sample)
        if options.list:
            _write(f"{_place(path, mutant)}: {mutant.change}" for mutant in mutants)
            continue
        counts = _run_file(settings, path, mutants)
        _write([f"{path}: {_summary(counts)}"])
        total += counts
    if not options.list:
        _write([f"total: {_summary(total)}, in {(time.monotonic() - began) / 60:.0f} minutes"])
    return 1 if total[SURVIVED] else 0


def _run_file(settings: Settings, path: str, mutants: Sequence[Mutant]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for mutant, outcome in run(path, settings.tests[path], mutants):
        explained = outcome == SURVIVED and settings.explains(path, mutant)
        counts["explained" if explained else outcome] += 1
        if outcome == SURVIVED and not explained:
            _write([f"survived {_place(path, mutant)}: {mutant.change}"])
    return counts


def _sample(mutants: Sequence[Mutant], limit: int | None) -> Sequence[Mutant]:
    """Return every n-th mutant, so that the whole file is covered."""
    return mutants if limit is None else mutants[:: max(1, -(-len(mutants) // limit))]


def _place(path: str, mutant: Mutant) -> str:
    return f"{path}:{mutant.line} {mutant.where}".rstrip()


def _summary(counts: Counter[str]) -> str:
    parts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    return f"{counts.total()} mutants: {parts}"


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
