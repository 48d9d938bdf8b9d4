"""Prints the table: `python -m tests.benchmarks.agents [sessions] [gateway]`.

With `--soak SECONDS`, it prints the memory of a gateway that agents ask all the time, or `--rate` times a second.
"""

import argparse
import sys

from tests.benchmarks.agents import gateway, sessions, soak
from tests.benchmarks.timing import print_rows

ROWS = {"sessions": sessions.rows, "gateway": gateway.rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.agents")
    parser.add_argument("names", nargs="*", metavar="|".join(ROWS), help="the tables; all by default")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="print the memory of a gateway over time instead")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second of the soak; 0 is as many as it can")
    chosen = parser.parse_args()
    if chosen.soak is not None:
        return soak.main(chosen.soak, chosen.rate)
    print_rows([row for name in chosen.names or ROWS for row in ROWS[name]()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
