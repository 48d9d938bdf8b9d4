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


def lines(rows: Iterable[Row]) -> Iterable[str]:
    """Yield the table in Markdown."""
    yield "| what | found | bound | |"
    yield "| --- | --- | --- | --- |"
    for row in rows:
        yield f"| {row.what} | {row.found} | {row.bound} | {'holds' if row.holds else 'BROKEN'} |"
