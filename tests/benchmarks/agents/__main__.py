"""Prints the table: `python -m tests.benchmarks.agents [sessions] [gateway]`."""

import sys

from tests.benchmarks.agents import gateway, sessions
from tests.benchmarks.timing import print_rows

ROWS = {"sessions": sessions.rows, "gateway": gateway.rows}


def main(names: list[str]) -> None:
    print_rows([row for name in names or ROWS for row in ROWS[name]()])


if __name__ == "__main__":
    main(sys.argv[1:])
