"""Walks every road to every ending: `python -m tests.attempts` says what differs from the records, and `--write` writes
them. Marks (`should`) are kept, except for those that are fulfilled."""

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

os.environ["DRAGOMAN_ENGINE"] = "httpx"  # as the tests

from tests.attempts.recording import RoadFile, problems, value_at
from tests.attempts.table import cells


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attempts", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record what happens")
    parser.add_argument("roads", nargs="*", help="the roads; all by default")
    arguments = parser.parse_args()
    logging.disable()
    found: list[str] = []
    for road, of_road in cells().items():
        if arguments.roads and road not in arguments.roads:
            continue
        before = RoadFile.read(road)
        after = RoadFile(before.path)
        for cell in of_road:
            with tempfile.TemporaryDirectory() as folder:
                actual = cell.walk(Path(folder))
            found += problems(road, cell.ending, cell.way, actual, before)
            key = cell.ending, cell.way
            after.cells[key] = actual
            after.marks[key] = [
                each for each in before.marks.get(key, ()) if value_at(actual, each.field) != each.value
            ]
        if arguments.write:
            after.write()
    sys.stdout.write("\n".join([*found, f"{len(found)} differences\n"]))
    return int(bool(found) and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
