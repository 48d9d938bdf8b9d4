"""What the stream laws tried and found, as rows for people and programs."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

from dragoman.testing.stream_laws import Effort, StreamSubject, Verdict, run_law


@dataclass(slots=True)
class LawRow:
    """One law over all streams of one adapter. ``seconds`` are CPU time; ``seed`` is 0 if nothing is random."""

    law: str
    subject: str
    tried: int = 0
    passed: int = 0
    failed: int = 0
    seed: int = 0
    seconds: float = 0.0
    streams: int = 0
    slowest: float = 0.0
    """Milliseconds of the stream whose replays took longest, on average."""
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, found: Verdict, seconds: float) -> None:
        self.streams += 1
        self.tried += found.tried
        self.failed += found.failed
        self.passed = self.tried - self.failed
        self.seconds += seconds
        self.slowest = max(self.slowest, 1000 * seconds / max(1, found.tried))
        self.outcomes = dict(Counter(self.outcomes) + Counter(found.outcomes))
        self.faults += found.faults


def run_law_over(law: str, subjects: Iterable[StreamSubject], effort: Effort) -> LawRow:
    """One law over some streams of one adapter."""
    row = LawRow(law, "", seed=effort.seed)
    for subject in subjects:
        row.subject = subject.adapter.provider
        started = time.process_time()
        row.add(run_law(law, subject, effort), time.process_time() - started)
    return row


class LawLedger:
    """The rows, and their sum for each law."""

    def __init__(self) -> None:
        self.rows: list[LawRow] = []

    @property
    def failed(self) -> int:
        return sum(row.failed for row in self.rows)

    def sums(self) -> list[LawRow]:
        """One row per law, over all adapters."""
        by_law: dict[str, LawRow] = {}
        for row in self.rows:
            total = by_law.setdefault(row.law, LawRow(row.law, "all", seed=row.seed))
            total.tried += row.tried
            total.passed += row.passed
            total.failed += row.failed
            total.seconds += row.seconds
            total.streams += row.streams
            total.slowest = max(total.slowest, row.slowest)
            total.outcomes = dict(Counter(total.outcomes) + Counter(row.outcomes))
        return list(by_law.values())

    def table(self, *, every: bool = False) -> str:
        """Columns for people; ``every``: one line for each adapter, too."""
        rows = [*(self.rows if every else [row for row in self.rows if row.failed]), *self.sums()]
        counts = f"{'streams':>8}{'tried':>9}{'passed':>9}{'failed':>8}"
        lines = [f"{'law':<18}{'adapter':<18}{counts}{'seed':>10}{'CPU s':>8}  outcomes"]
        lines += list(map(_line, rows))
        whole = sum(row.tried for row in self.rows)
        seconds = sum(row.seconds for row in self.rows)
        lines.append(f"{whole} replays, {self.failed} failed, {seconds:.1f} s of CPU")
        return "\n".join([*lines, *self._faults()])

    def json_lines(self) -> str:
        """One JSON object per row."""
        return "\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in self.rows)

    def _faults(self) -> Iterator[str]:
        for row in self.rows:
            for fault in row.faults[:3]:
                yield f"{row.law}, {row.subject}: {fault[:300]}"


def _line(row: LawRow) -> str:
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(row.outcomes.items(), key=lambda item: -item[1]))
    return (
        f"{row.law:<18}{row.subject:<18}{row.streams:>8}{row.tried:>9}{row.passed:>9}{row.failed:>8}"
        f"{row.seed or '':>10}{row.seconds:>8.1f}  {outcomes}"
    )
