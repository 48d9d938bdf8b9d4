"""What became of all laws with one adapter: the scorecard, as text."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from dragoman.adapter.contract import Adapter
from dragoman.testing.conformance.law import Law, LawResult, Mark
from dragoman.testing.conformance.laws import LAWS
from dragoman.testing.conformance.subject import Effort, Subject
from dragoman.testing.conformance.wire import Wire


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The results of one model's adapter. ``adapter`` is the class that was tried, with its module."""

    model: str
    adapter: str
    results: tuple[LawResult, ...]

    @property
    def passed(self) -> bool:
        """Whether no law was broken. What could not be tried counts neither way; see `complete`."""
        return not self.count(Mark.BROKEN)

    @property
    def complete(self) -> bool:
        """Whether the kit was given what it needs to try the laws of replies."""
        return any(result.law.chapter == "streams" and result.verdict.tried for result in self.results)

    @property
    def trials(self) -> int:
        return sum(result.verdict.tried for result in self.results)

    def count(self, mark: Mark) -> int:
        return sum(result.mark is mark for result in self.results)

    def chapters(self) -> Iterator[tuple[str, list[LawResult]]]:
        for chapter, results in groupby(self.results, key=lambda result: result.law.chapter):
            yield chapter, list(results)

    def __str__(self) -> str:
        summary = f"{self.count(Mark.HOLDS)} laws hold, {self.count(Mark.BROKEN)} are broken"
        return f"{self.model}: {summary}, {self.count(Mark.NOT_TRIED)} were not tried; {self.trials:,} trials"


def conform(
    adapter: Adapter, wires: Wire | Iterable[Wire] = (), effort: Effort | None = None, laws: Iterable[Law] = LAWS
) -> Scorecard:
    """Tries the laws on an adapter. ``wires`` say how its provider answers, and more than one where it has several.

    Never raises for what an adapter does: that is a fault on the scorecard.
    """
    subject = Subject(adapter, (wires,) if isinstance(wires, Wire) else tuple(wires), effort or Effort())
    kind = type(adapter)
    with quiet():
        results = tuple(law.run(subject) for law in laws)
    return Scorecard(subject.model, f"{kind.__module__}.{kind.__qualname__}", results)


@contextmanager
def quiet() -> Iterator[None]:
    """Losses and unknown events are the point here: each would be a warning."""
    logger = logging.getLogger("dragoman")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
