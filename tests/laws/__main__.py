"""The ledger of the stream laws: `python -m tests.laws`, with `--every` for a line per adapter, `--json` for rows.

`HYPOTHESIS_PROFILE=nightly` tries more, in some seven minutes instead of one; `--seed` tries something else. `--left`
adds abandoned streams, over real sockets. `--limits` prints the most that corrupt streams take, and `--tables` counts
and runs the hardening tables instead.
"""

import argparse
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

from dragoman.testing.stream_laws import LAWS
from tests.laws.hardening import tables
from tests.laws.streams import abandoned, limits
from tests.laws.streams.effort import MUTATIONS, effort_for
from tests.laws.streams.ledger import LawLedger, run_law_over
from tests.laws.streams.subjects import SEED, missing_adapters, stream_subjects


def main() -> int:
    """The exit status: 1 if a law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws", description=__doc__)
    parser.add_argument("--every", action="store_true", help="a line for each adapter")
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of a table")
    parser.add_argument("--seed", type=int, help="another seed than the one of the tests")
    parser.add_argument("--left", action="store_true", help="streams that are cancelled or left as well")
    parser.add_argument("--limits", action="store_true", help="time and memory of corrupt streams, instead")
    parser.add_argument("--tables", action="store_true", help="the hardening tables, instead")
    parser.add_argument("providers", nargs="*", help="only these adapters")
    chosen = parser.parse_args()
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # unknown events are expected here
    if chosen.tables:
        rows = list(tables.check_tables())
        sys.stdout.write("\n".join(tables.lines(rows)) + "\n")
        return 0 if all(row.enough for row in rows) else 1
    seed = SEED if chosen.seed is None else chosen.seed
    providers = list(_select_providers(chosen.providers))
    if chosen.limits:
        streams = {provider: found for provider in providers if (found := stream_subjects(provider))}
        for line in limits.table(streams, MUTATIONS, seed):
            sys.stdout.write(line + "\n")
        return 0
    ledger = LawLedger()
    for provider in providers:
        effort = replace(effort_for(provider), seed=seed)
        for law in LAWS:
            ledger.rows.append(run_law_over(law, stream_subjects(provider), effort))
    if chosen.left:
        ledger.rows += abandoned.rows()
    sys.stdout.write((ledger.json_lines() if chosen.json else ledger.table(every=chosen.every)) + "\n")
    return 1 if ledger.failed else 0


def _select_providers(names: list[str]) -> Iterator[str]:
    """The providers that can be tried, all of them or the named ones."""
    for provider, missing in missing_adapters().items():
        if missing:
            sys.stderr.write(f"{provider} is left out: {missing}\n")
        elif not names or provider in names:
            yield provider


if __name__ == "__main__":
    sys.exit(main())
