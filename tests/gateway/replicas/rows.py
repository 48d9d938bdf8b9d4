"""What a check of several gateways found, as a row of a table."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """``found`` and ``bound`` are written for a reader; ``holds`` says whether the one keeps to the other."""

    what: str
    found: str
    bound: str
    holds: bool


def print_rows(rows: Iterable[Row]) -> int:
    """Print the table in Markdown, each row as soon as it is found. Returns 1 if one does not hold."""
    print("| what | found | bound | |\n| --- | --- | --- | --- |", flush=True)
    failed = 0
    for row in rows:
        failed += not row.holds
        print(f"| {row.what} | {row.found} | {row.bound} | {'holds' if row.holds else 'BROKEN'} |", flush=True)
    return 1 if failed else 0
