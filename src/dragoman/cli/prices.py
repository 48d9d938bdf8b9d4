"""`dragoman prices MODEL`: what a model costs today, or cost by an older table, and from which source."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.show import console
from dragoman.pricing import PriceRow, check, keep, kept_versions, price_table


def prices(
    model: Annotated[
        str,
        typer.Argument(
            help="provider:model; `check` validates the whole table, `versions` lists those at hand, "
            "`keep` stores it in the folder --kept."
        ),
    ],
    at: Annotated[datetime | None, typer.Option(help="The day to look at, e.g. 2026-06-01; today by default.")] = None,
    version: Annotated[str | None, typer.Option(help="An older price table, by the version on a usage.")] = None,
    kept: Annotated[Path | None, typer.Option(help="The folder in which you keep older tables.")] = None,
) -> None:
    """Shows a model's prices in US dollars per million tokens."""
    table, out = price_table(version, kept), console()
    match model:
        case "check":
            problems = check(table)
            for problem in problems:
                out.print(problem, markup=False)
            out.print(f"{table.version}: {len(problems) or 'no'} problems")
            raise typer.Exit(1 if problems else 0)
        case "versions":
            out.print("\n".join(kept_versions(kept)))
            return
        case "keep":
            if kept is None:
                raise ConfigurationError("say where: dragoman prices keep --kept FOLDER")
            out.print(f"{keep(table, kept)}", soft_wrap=True)
            return
    moment = (at or datetime.now(UTC)).replace(tzinfo=UTC) if at is None or at.tzinfo is None else at
    row = table.find(model, moment)
    if row is None:
        why = table.unpriced.get(model.partition(":")[0])
        raise ConfigurationError(f"no price is known for {model!r} on {moment:%Y-%m-%d}" + (f": {why}" if why else ""))
    out.print(f"[bold]{model}[/] as {row.provider}:{row.model}, {moment:%Y-%m-%d}")
    shown = Table("$ per million tokens", *_columns(row), box=None, pad_edge=False)
    for each in (row, *table.variants(model, moment)):
        name = "standard" if each.variant is None else " ".join(each.variant)
        shown.add_row(name, *(_amount(each, rate) for rate in _columns(row)))
    out.print("free" if row.free else shown)
    if row.tools:
        out.print("per 1,000 calls: " + ", ".join(f"{name} ${amount}" for name, amount in row.tools.items()))
    out.print(f"[dim]source {row.source}, compared {row.checked}; price table {table.version}[/]", soft_wrap=True)


def _columns(row: PriceRow) -> list[str]:
    return list(row.rates)


def _amount(row: PriceRow, name: str) -> str:
    rate = row.rates.get(name)
    if rate is None:
        return ""
    tiers = "".join(f"; {amount} over {tokens:,}" for tokens, amount in rate.over)
    return f"{rate.amount}{tiers}"
