"""Scorecards as one HTML page that needs nothing else: no script, no font, no network."""

from collections.abc import Iterator, Sequence
from html import escape

from dragoman.testing.conformance.law import LawResult, Mark
from dragoman.testing.conformance.scorecard import Scorecard

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


def page(cards: Sequence[Scorecard]) -> str:
    """All that an adapter or its wire may have put into a scorecard is escaped: it stays text."""
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
