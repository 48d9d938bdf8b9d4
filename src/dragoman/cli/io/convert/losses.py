"""The losses of a conversion, counted by reason: their number has no limit, and the memory for them has."""

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from dragoman.adapter.losses import Loss, Severity
from dragoman.cli.io.console import show_line

_MAX_SHOWN = 12
_MAX_REASONS = 4096
"""Different reasons that are counted apart. All others are one."""
_OTHER = "other reasons"


class LossCounts:
    """Counts losses by severity, kind and reason."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Severity, str, str]] = Counter()

    def add(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            key = loss.severity, str(loss.kind), loss.reason
            if len(self._counts) >= _MAX_REASONS and key not in self._counts:
                key = loss.severity, str(loss.kind), _OTHER
            self._counts[key] += 1

    def print(self, console: Console) -> None:
        """Print the losses by reason, the most severe first."""
        if not self._counts:
            console.print("[green]nothing was lost[/]")
            return
        rows = sorted(self._counts.items(), key=lambda row: (row[0][0] is not Severity.WARNING, -row[1], row[0]))
        table = Table("lost", "", "what", box=None, pad_edge=False)
        table.columns[1].justify = "right"
        for (severity, kind, reason), times in rows[:_MAX_SHOWN]:
            style = "yellow" if severity is Severity.WARNING else "dim"
            table.add_row(show_line(kind), f"{times:,}", show_line(reason), style=style)
        console.print(table)
        if len(rows) > _MAX_SHOWN:
            rest = sum(times for _, times in rows[_MAX_SHOWN:])
            console.print(f"[dim]and {rest:,} more, of {len(rows) - _MAX_SHOWN} kinds[/]")
