"""Runs the machine for longer: `python -m tests.laws.money --runs 1000`."""

import argparse
import logging
import time

from tests.laws.money.machine import Money, run, world


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.money", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--database", help="the URL of a PostgreSQL, for two processes on it")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # most replies are estimated here
    begun = time.monotonic()
    with world(arguments.database, processes=2 if arguments.database else 0) as Money.world:
        run(Money, arguments.runs, arguments.steps)
    print(f"{arguments.runs:,} runs of {arguments.steps} steps: held, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
