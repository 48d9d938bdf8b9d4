"""The ledger of the stream laws: `python -m tests.laws`, with `--every` for a line per adapter, `--json` for rows.

`HYPOTHESIS_PROFILE=nightly` tries more; `--seed` tries something else.
"""

import argparse
import logging
import sys
from dataclasses import replace

from dragoman.testing.stream_laws import LAWS
from tests.laws.ledger import Ledger, run
from tests.laws.streams.effort import effort_for
from tests.laws.streams.subjects import installed, subjects


def main() -> int:
    """The exit status: 1 where a law is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws", description=__doc__)
    parser.add_argument("--every", action="store_true", help="a line for each adapter")
    parser.add_argument("--json", action="store_true", help="one JSON object a row instead of a table")
    parser.add_argument("--seed", type=int, help="another seed than the one of the tests")
    parser.add_argument("providers", nargs="*", help="only these adapters")
    chosen = parser.parse_args()
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # unknown events are the point here
    ledger = Ledger()
    for provider, missing in installed().items():
        if missing or (chosen.providers and provider not in chosen.providers):
            if missing:
                sys.stderr.write(f"{provider} is left out: {missing}\n")
            continue
        effort = effort_for(provider)
        if chosen.seed is not None:
            effort = replace(effort, seed=chosen.seed)
        for law in LAWS:
            ledger.rows.append(run(law, subjects(provider), effort))
    sys.stdout.write((ledger.json_lines() if chosen.json else ledger.table(every=chosen.every)) + "\n")
    return 1 if ledger.failed else 0


if __name__ == "__main__":
    sys.exit(main())
