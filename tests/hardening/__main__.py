"""Hostile streams and values, faults, keys, a long conversation, cancellations, kills: `python -m tests.hardening`.

It prints a table for each, with the worst of every row, and exits with 1 if anything is over its bound. ``--quick``
tries a hundredth. Times are CPU times of this machine; the tests assert none of them.
"""

import argparse
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import chdir
from typing import Protocol, TypeVar

from tests.hardening import cancellations, conversions, fault_plans, fuzz, kills, secret_frames, stalls

SEED = 20261122
MIB = 1024 * 1024


class _Row(Protocol):
    @property
    def enough(self) -> bool: ...


RowT = TypeVar("RowT", bound=_Row)


def main() -> int:
    """Return the exit status: 1 if a row is not good enough."""
    parser = argparse.ArgumentParser(prog="python -m tests.hardening", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a hundredth of everything")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    share = 100 if chosen.quick else 1
    verdicts: list[bool] = []

    def noted(rows: Iterable[RowT]) -> Iterator[RowT]:
        for row in rows:
            verdicts.append(row.enough)
            yield row

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for table in (
            stalls.lines(noted(stalls.rows(63 * MIB // 4 // share))),
            fuzz.lines(noted(fuzz.doors(16_000 // share, chosen.seed))),
            fault_plans.lines(noted(fault_plans.rows(chosen.seed, stride=min(share, 20)))),
            secret_frames.lines(noted(secret_frames.rows())),
            conversions.lines(noted(conversions.rows(conversions.COUNT // share))),
            cancellations.lines(noted(cancellations.rows(1_000 // share, chosen.seed))),
            kills.lines(noted(kills.rows(max(kills.KILLS // share, 10), chosen.seed))),
        ):
            for line in table:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
            sys.stdout.write("\n")
    sys.stdout.write(f"{'everything holds' if all(verdicts) else 'FAILED'}, seed {chosen.seed}\n")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
