"""Prints the table: `python -m tests.benchmarks.agents [sessions] [gateway]`.

With `--soak SECONDS`, it prints the memory of a gateway that agents ask all the time.
"""

import sys

from tests.benchmarks.agents import gateway, sessions, soak
from tests.benchmarks.timing import print_rows

ROWS = {"sessions": sessions.rows, "gateway": gateway.rows}


def main(names: list[str]) -> None:
    print_rows([row for name in names or ROWS for row in ROWS[name]()])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--soak"]:
        sys.exit(soak.main(float(sys.argv[2])))
    main(sys.argv[1:])
