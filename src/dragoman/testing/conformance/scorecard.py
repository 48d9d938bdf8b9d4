"""The scorecard: the results of all laws with one adapter, as text and as HTML."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import groupby

from dragoman.adapter.contract import Adapter
from dragoman.testing.conformance.law import Law, LawResult, Mark
from dragoman.testing.conformance.laws import LAWS
from dragoman.testing.conformance.subject import Effort, Subject
from dragoman.testing.conformance.wire import Wire

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #2a7d4f; --bad: #c0392b; --dim: #8889; }
@media (prefers-color-scheme: dark) { :root { --good: #6fcf97; --bad: #ff8a7a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.holds { color: var(--good); } .broken { color: var(--bad); font-weight: 600; } .not-tried { color: var(--dim); }
.says { display: block; font-size: .85em; opacity: .75; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85em; margin: .4rem 0 0; }
"""
_SIGNS = {Mark.HOLDS: "✓ holds", Mark.BROKEN: "✗ broken", Mark.NOT_TRIED: "· not tried"}


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The results of one model's adapter. ``adapter`` is the tested class, with its module."""

    model: str
    """The model, as ``provider:name``."""
    adapter: str
    results: tuple[LawResult, ...]
    """One result for each law, chapter by chapter."""

    @property
    def passed(self) -> bool:
        """Whether no law is broken. Laws that were not tried do not count; see `complete`."""
        return not self.count(Mark.BROKEN)

    @property
    def complete(self) -> bool:
        """Whether the kit has what it needs to try the laws of replies."""
        return any(result.law.chapter == "streams" and result.verdict.tried for result in self.results)

    @property
    def trials(self) -> int:
        """The number of trials of all laws."""
        return sum(result.verdict.tried for result in self.results)

    def count(self, mark: Mark) -> int:
        """Return how many laws have this mark."""
        return sum(result.mark is mark for result in self.results)

    def chapters(self) -> Iterator[tuple[str, list[LawResult]]]:
        """Yield each chapter's name with its results."""
        for chapter, results in groupby(self.results, key=lambda result: result.law.chapter):
            yield chapter, list(results)

    def __str__(self) -> str:
        summary = f"{self.count(Mark.HOLDS)} laws hold, {self.count(Mark.BROKEN)} are broken"
        return f"{self.model}: {summary}, {self.count(Mark.NOT_TRIED)} were not tried; {self.trials:,} trials"


def conform(
    adapter: Adapter, wires: Wire | Iterable[Wire] = (), effort: Effort | None = None, laws: Iterable[Law] = LAWS
) -> Scorecard:
    """Try the laws on an adapter. ``wires`` describe how its provider answers.

    Never raises an adapter's exception: it is a fault on the scorecard.
    """
    subject = Subject(adapter, (wires,) if isinstance(wires, Wire) else tuple(wires), effort or Effort())
    kind = type(adapter)
    with quiet():
        results = tuple(law.run(subject) for law in laws)
    return Scorecard(subject.model, f"{kind.__module__}.{kind.__qualname__}", results)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log: losses and unknown events are expected here, and each would be a warning."""
    logger = logging.getLogger("dragoman")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def page(cards: Sequence[Scorecard]) -> str:
    """Return one HTML page that needs no script, font or network.

    Everything that comes from an adapter or its wire is escaped.
    """
    return "".join(_render(cards))


def _render(cards: Sequence[Scorecard]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield f"<title>Conformance</title><style>{_STYLE}</style></head><body>\n<h1>Conformance</h1>\n"
    for card in cards:
        yield f"<h2>{escape(card.model)}</h2>\n<p>{escape(str(card))}<br><code>{escape(card.adapter)}</code></p>\n"
        for chapter, results in card.chapters():
            yield f"<h3>{escape(chapter)}</h3>\n<table><tr><th>law</th><th>trials</th><th>result</th></tr>\n"
            yield from map(_render_row, results)
            yield "</table>\n"
    yield "</body></html>\n"


def _render_row(result: LawResult) -> str:
    law, found, mark = result.law, result.verdict, result.mark
    outcomes = ", ".join(f"{name} {times}" for name, times in sorted(found.outcomes.items()))
    notes = (
        f'<span class="says">{escape(result.skip_reason or outcomes)}</span>' if result.skip_reason or outcomes else ""
    )
    faults = f"<pre>{escape(chr(10).join(found.faults))}</pre>" if found.faults else ""
    return (
        f'<tr><td>{escape(law.name)}<span class="says">{escape(law.statement)}</span>{faults}</td>'
        f'<td class="number">{found.tried:,}</td>'
        f'<td class="{str(mark).replace(" ", "-")}">{_SIGNS[mark]}{notes}</td></tr>\n'
    )
