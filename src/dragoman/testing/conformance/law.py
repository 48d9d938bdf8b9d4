"""A law of the kit, and what became of it with one adapter."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dragoman.adapter.errors import MissingExtraError
from dragoman.testing.conformance.subject import NotTriedError, Subject
from dragoman.testing.stream_laws import Trial, Verdict

Check = Callable[[Subject], Iterator[Trial]]
"""Tries a law on a subject. Raises NotTriedError where there is nothing to try it on."""


class Mark(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Law:
    """``name`` is unique in its ``chapter``; what it says is the docstring of its check."""

    chapter: str
    name: str
    check: Check

    @property
    def statement(self) -> str:
        return " ".join((self.check.__doc__ or "").split())

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"

    def run(self, subject: Subject) -> "LawResult":
        """An exception of the adapter's own is a fault. Raises MissingExtraError alone, where Hypothesis is missing."""
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
    """``verdict`` counts the trials and holds the first faults; ``why_not`` says why there were none."""

    law: Law
    verdict: Verdict
    skip_reason: str = ""

    @property
    def mark(self) -> Mark:
        if self.verdict.failed:
            return Mark.BROKEN
        return Mark.HOLDS if self.verdict.tried else Mark.NOT_TRIED
