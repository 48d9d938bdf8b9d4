"""`dragoman conform`: checks a package's adapters against the conformance kit, with a scorecard."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dragoman.cli.io.console import console, show_line

if TYPE_CHECKING:
    from dragoman.testing.conformance import LawResult, Scorecard

_WIDTH = 100
_PLURALS = {"holds": "hold", "broken": "broken", "not tried": "not tried"}


def conform(
    package: Annotated[str, typer.Argument(help="A package, its distribution, or a provider that it registers.")],
    kit: Annotated[str | None, typer.Option(help="The suite as module:Class, if no entry point names it.")] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Test only these models; the default is all listed ones.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the scorecard to this file, as one HTML page.")] = None,
    histories: Annotated[int, typer.Option(help="The number of histories of each kind to test.", min=1)] = 25,
    show_all: Annotated[bool, typer.Option("--all", help="Also show the laws that hold.")] = False,
) -> None:
    """Tests the adapters of a package against the laws of the conformance kit, without their provider.

    Exits with 1 if a law is broken, and with 3 if none is but the laws about replies could not be tested, because the
    package does not describe its provider's replies.
    """
    from dataclasses import replace

    from dragoman.testing.conformance import conform as run_conformance
    from dragoman.testing.conformance import page
    from dragoman.testing.conformance.suite import find_suites

    cards = []
    out = console(min_width=_WIDTH)
    for suite in find_suites(package, kit):
        for subject in suite.subjects(model or ()):
            effort = replace(subject.effort, histories=histories)
            cards.append(run_conformance(subject.adapter, subject.wires, effort))
            _print_card(out, cards[-1], show_all=show_all)
    if html is not None:
        html.write_text(page(cards), encoding="utf-8")
        out.print(f"[dim]the scorecard is in {show_line(str(html))}[/]")
    if not all(card.passed for card in cards):
        raise typer.Exit(1)
    if not all(card.complete for card in cards):
        raise typer.Exit(3)


def _print_card(out: Console, card: "Scorecard", *, show_all: bool) -> None:
    from dragoman.testing.conformance import Mark

    out.print(f"[bold]{show_line(card.model)}[/] [dim]{show_line(card.adapter)}[/]")
    for chapter, results in card.chapters():
        counts = {mark: sum(result.mark is mark for result in results) for mark in Mark}
        colour = "red" if counts[Mark.BROKEN] else "green" if counts[Mark.HOLDS] else "yellow"
        summary = ", ".join(f"{number} {_PLURALS[mark]}" for mark, number in counts.items() if number)
        trials = sum(result.verdict.tried for result in results)
        out.print(f"  [{colour}]{chapter:<14}[/]{summary} [dim]({trials:,} trials)[/]")
        for result in results:
            if show_all or result.mark is not Mark.HOLDS:
                _print_law(out, result)
    out.print(f"  {show_line(str(card))}", soft_wrap=True)


def _print_law(out: Console, result: "LawResult") -> None:
    from dragoman.testing.conformance import Mark

    symbol = {Mark.HOLDS: "[green]✓[/]", Mark.BROKEN: "[red]✗[/]", Mark.NOT_TRIED: "[yellow]·[/]"}[result.mark]
    reason = f": {result.skip_reason}" if result.skip_reason else ""
    out.print(f"    {symbol} {show_line(result.law.name)}[dim]{show_line(reason)}[/]", soft_wrap=True)
    if result.mark is Mark.BROKEN:
        out.print(f"      [dim]{show_line(result.law.statement)}[/]", soft_wrap=True)
        for fault in result.verdict.faults:
            out.print(f"      {show_line(fault)}", soft_wrap=True)
