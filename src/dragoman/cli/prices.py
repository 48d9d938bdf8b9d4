"""`dragoman prices MODEL`: what a model costs today, from which source."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.show import console
from dragoman.pricing import PriceRow, check, price_table


def prices(
    model: Annotated[str, typer.Argument(help="provider:model; or `check`, which validates the whole table.")],
    at: Annotated[datetime | None, typer.Option(help="The day to look at, e.g. 2026-06-01; today by default.")] = None,
) -> None:
    """Shows a model's prices in US dollars per million tokens."""
    table, out = price_table(), console()
    if model == "check":
        problems = check(table)
        for problem in problems:
            out.print(problem, markup=False)
        out.print(f"{table.version}: {len(problems) or 'no'} problems")
        raise typer.Exit(1 if problems else 0)
    moment = (at or datetime.now(UTC)).replace(tzinfo=UTC) if at is None or at.tzinfo is None else at
    row = table.find(model, moment)
    if row is None:
        raise ConfigurationError(f"no price is known for {model!r} on {moment:%Y-%m-%d}")
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
