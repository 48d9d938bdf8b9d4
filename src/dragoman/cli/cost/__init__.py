"""`dragoman cost FILE...`: spending by model, day, user and so on, or what it would have cost on another model."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import full_name
from dragoman.canonical.usage import CostStatus
from dragoman.cli.cost.plot import write_plot
from dragoman.cli.cost.sources import Repricing, Span, open_sources
from dragoman.cli.io.client import own_store
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.inputs import check_regular
from dragoman.pricing import price_table
from dragoman.pricing.analytics.cost_lines import CostLine, sum_by_key, sum_lines
from dragoman.pricing.quote import EXACT

_WIDTH = 110
_MAX_GAPS = 8
"""Gaps named below the table; the JSON has all of them."""


class By(StrEnum):
    MODEL = "model"
    PROVIDER = "provider"
    DAY = "day"
    USER = "user"
    TEAM = "team"
    SESSION = "session"
    KEY = "key"
    TAG = "tag"


def cost(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sessions (.json), messages (.jsonl), stores (a file or URL), folders exported from them, or usages"
            " (.parquet, .csv, .jsonl). The default is what ask and chat have kept, by day."
        ),
    ] = None,
    by: Annotated[list[By] | None, typer.Option(help="Group by this; repeat the option for a finer report.")] = None,
    since: Annotated[datetime | None, typer.Option(help="Only replies from this moment on, in UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Only replies before this moment, in UTC.")] = None,
    again: Annotated[bool, typer.Option("--reprice", help="Use today's prices instead of the recorded costs.")] = False,
    version: Annotated[str | None, typer.Option(help="Reprice with an older table, named by its version.")] = None,
    kept: Annotated[Path | None, typer.Option(help="The folder in which you keep older tables.")] = None,
    overlay: Annotated[Path | None, typer.Option(help="Reprice with your own prices, a TOML file.")] = None,
    at: Annotated[datetime | None, typer.Option(help="Reprice everything at the prices of this moment.")] = None,
    as_model: Annotated[str | None, typer.Option(help="Reprice as if this model had answered.")] = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Let DuckDB read stores, which is faster for large ones.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw a chart: a file .html, .svg or .png.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON, with every digit.")] = False,
) -> None:
    """Adds up what replies cost. Sessions, messages and stores count as recorded, usages at the prices of their time.

    Days are in UTC. Unknown costs are counted and named, never taken for zero.
    """
    groups = [each.value for each in by or [By.MODEL if files else By.DAY]]
    table = None
    if again or overlay or version:
        table = price_table(version, kept)
        if overlay:
            check_regular(overlay)
            table = table.with_overlay(overlay)
    prices = Repricing(table, _to_utc(at), as_model and full_name(as_model))
    if not files and (store := own_store()) is not None:
        files = [store]
    if not files:
        raise ConfigurationError("no conversation is kept yet: name files or a store")
    opened = open_sources(files, Span(_to_utc(since), _to_utc(until)), attach=attach)
    lines = sum_by_key(line for source in opened for line in source.lines(groups, prices))
    priced_by = sorted({source.describe_prices(prices) for source in opened})
    if plot is not None:
        write_plot(plot, groups, lines, "; ".join(priced_by))
    if as_json:
        result = {"lines": [_to_json(groups, line) for line in lines], "total": _to_json([], sum_lines(lines))}
        typer.echo(json.dumps(result | {"prices": priced_by}, indent=2))
    else:
        _print_table(groups, lines, "; ".join(priced_by))


def _to_utc(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _print_table(groups: Sequence[str], lines: Sequence[CostLine], priced_by: str) -> None:
    out = console(min_width=_WIDTH)
    table = Table(*groups, box=None, pad_edge=False)
    for title in ("replies", "tokens in", "tokens out", "cost"):
        table.add_column(title, justify="right")
    table.add_column("not priced", justify="right")
    total_line = sum_lines(lines)
    for line in lines:
        table.add_row(*(show_line(part or "-") for part in line.key), *_format_figures(line))
    if len(lines) > 1:
        table.add_section()
        table.add_row("total", *[""] * (len(groups) - 1), *_format_figures(total_line), style="bold")
    out.print(table)
    if total_line.unpriced:
        gaps = sorted(total_line.unpriced.items(), key=lambda gap: (-gap[1], gap[0]))
        gap_list = ", ".join(f"{name} ({count:,})" for name, count in gaps[:_MAX_GAPS])
        more = f", and {len(gaps) - _MAX_GAPS} more: see --json" if len(gaps) > _MAX_GAPS else ""
        out.print(
            f"[yellow]without a price, with the number of replies:[/] {show_line(gap_list)}{more}", soft_wrap=True
        )
    out.print(f"[dim]prices: {show_line(priced_by)}[/]", soft_wrap=True)


def _format_figures(line: CostLine) -> list[str]:
    known = line.statuses.get(CostStatus.PRICED, 0) + line.statuses.get(CostStatus.FREE, 0)
    tokens = map(line.describe_tokens, (line.prompt_tokens, line.output_tokens))
    unknown = line.replies - known
    return [f"{line.replies:,}", *tokens, str(line), f"{unknown:,}" if unknown else ""]


def _to_json(groups: Sequence[str], line: CostLine) -> dict[str, Any]:
    counted = line.uncounted < line.replies or not line.replies
    return {
        **dict(zip(groups, line.key, strict=True)),
        "replies": line.replies,
        "prompt_tokens": line.prompt_tokens if counted else None,
        "output_tokens": line.output_tokens if counted else None,
        "uncounted_replies": line.uncounted,
        "cost_usd": None if line.cost_usd is None else f"{EXACT.normalize(line.cost_usd):f}",
        "cost_status": line.status.value,
        "statuses": {status.value: count for status, count in sorted(line.statuses.items())},
        "unpriced": dict(sorted(line.unpriced.items())),
    }
