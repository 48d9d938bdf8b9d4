"""Writes the names that leave the process, one file per kind, and prints what was removed and added."""

import argparse
import sys

from tests.compatibility.frozen import names


def main() -> None:
    parser = argparse.ArgumentParser(prog=names.COMMAND, description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"only these of {', '.join(names.KINDS)}")
    chosen = parser.parse_args().kinds or names.KINDS
    if unknown := set(chosen) - names.KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    for kind in chosen:
        now = names.collect(kind)
        try:
            before = names.read(kind)
        except FileNotFoundError:
            before = []
        file = names.write(kind, now)
        sys.stdout.writelines(f"{kind}: {line}\n" for line in names.differences(before, now))
        sys.stdout.write(f"{file.name}: {len(now):,} names\n")


if __name__ == "__main__":
    main()
