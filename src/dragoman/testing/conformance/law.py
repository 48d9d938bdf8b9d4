"""A law of the kit, and its result for one adapter."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dragoman.adapter.errors import MissingExtraError
from dragoman.testing.conformance.subject import NotTriedError, Subject
from dragoman.testing.stream_laws import Trial, Verdict

Check = Callable[[Subject], Iterator[Trial]]
"""Tries a law on a subject. Raises NotTriedError if the law does not apply."""


class Mark(StrEnum):
    """The result of a law for one adapter."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Law:
    """One law of the kit. ``name`` is unique in its ``chapter``. The statement is the docstring of its check."""

    chapter: str
    name: str
    check: Check
    """The function that tries the law on a `Subject`."""

    @property
    def statement(self) -> str:
        """The law as one sentence or more."""
        return " ".join((self.check.__doc__ or "").split())

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"

    def run(self, subject: Subject) -> "LawResult":
        """Try the law. An exception of the adapter is a fault; only MissingExtraError (no Hypothesis) is raised."""
        found = Verdict(self.name)
        try:
            for trial in self.check(subject):
                found.count(trial)
        except NotTriedError as reason:
            if not found.tried:
                return LawResult(self, found, str(reason))
        except MissingExtraError:
            raise
        except Exception as error:
            found.count(Trial("the law", (f"{type(error).__name__} was raised: {error}",)))
        return LawResult(self, found, "" if found.tried else "nothing applies")


@dataclass(frozen=True, slots=True)
class LawResult:
    """The result of one law for one adapter. ``verdict`` has the number of trials and the first faults. ``skip_reason``
    explains why there were no trials."""

    law: Law
    """The law that was tried."""
    verdict: Verdict
    skip_reason: str = ""

    @property
    def mark(self) -> Mark:
        """Whether the law is broken, holds or was not tried."""
        if self.verdict.failed:
            return Mark.BROKEN
        return Mark.HOLDS if self.verdict.tried else Mark.NOT_TRIED
