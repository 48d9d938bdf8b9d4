"""`dragoman cost FILE...`: spending by model, day, user and so on, or what it would have cost on another model."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.adapter.names import full_name
from dragoman.canonical.usage import CostStatus
from dragoman.cli.cost.sources import Repricing, Span, open_sources
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.conversations import own_store
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
    opened, span = open_sources(files, attach=attach), Span(_to_utc(since), _to_utc(until))
    lines = sum_by_key(line for source in opened for line in source.lines(groups, prices, span))
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
        out.print(f"[yellow]without a price, with the number of replies:[/] {show_line(gap_list)}{more}")
    out.print(f"[dim]prices: {show_line(priced_by)}[/]")


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


_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
)  # fmt: skip
# Pixels.
_ROW, _TOP, _BARS, _RIGHT = 26, 40, 520, 190
_LETTER = 8
_LONGEST = 48

_Key = tuple[str | None, ...]


def write_plot(path: Path, groups: Sequence[str], lines: Sequence[CostLine], priced_by: str) -> None:
    """Write the chart to a file; the suffix selects the format.

    Raises ConfigurationError for a suffix other than .html, .svg and .png, and MissingExtraError for a PNG without the
    package that converts an SVG.
    """
    match path.suffix.lower():
        case ".svg":
            path.write_text(render_svg(groups, lines), encoding="utf-8")
        case ".html":
            path.write_text(render_html(groups, lines, priced_by), encoding="utf-8")
        case ".png":
            try:
                cairosvg = import_module("cairosvg")
            except (ModuleNotFoundError, OSError):  # OSError: the system has no cairo
                raise MissingExtraError(
                    "a PNG needs cairosvg and the cairo library: pip install cairosvg, or write .svg or .html"
                ) from None
            path.write_bytes(cairosvg.svg2png(bytestring=render_svg(groups, lines).encode(), scale=2))
        case _:
            raise ConfigurationError(f"{path}: the file of a plot must end in .html, .svg or .png")


def render_svg(groups: Sequence[str], lines: Sequence[CostLine]) -> str:
    """Return the chart: one bar for each value of the first group, divided by the others. An unknown cost has a label
    but no bar."""
    lines_by_bar: dict[_Key, list[CostLine]] = {}
    for line in lines:
        lines_by_bar.setdefault(line.key[:1], []).append(line)
    totals = {key: replace(sum_lines(parts), key=key) for key, parts in lines_by_bar.items()}
    part_keys = sorted({line.key[1:] for line in lines if line.key[1:]}, key=_label)
    colours = {key: _COLOURS[index % len(_COLOURS)] for index, key in enumerate(part_keys)}
    max_cost = max((_cost_of(total) for total in totals.values()), default=Decimal(0)) or Decimal(1)
    left = _LETTER * max((len(_label(key)) for key in totals), default=0) + 20
    bars: list[dict[str, Any]] = []
    for index, (key, total) in enumerate(totals.items()):
        end, parts = float(left), []
        for line in lines_by_bar[key]:
            if length := float(_cost_of(line) / max_cost * _BARS):
                parts.append((end, length, colours.get(line.key[1:], _COLOURS[0]), f"{_label(line.key)}: {line}"))
                end += length
        bars.append({"label": _label(key), "top": _TOP + _ROW * index, "parts": parts, "end": end, "total": total})
    top = _TOP + _ROW * len(bars) + 10
    legend = [(top + _ROW * index, colour, _label(key)) for index, (key, colour) in enumerate(colours.items())]
    width, height = left + _BARS + _RIGHT, _TOP + _ROW * (len(bars) + len(legend)) + 20
    return _render("plot.svg.jinja", groups=groups, bars=bars, legend=legend, left=left, width=width, height=height)


def render_html(groups: Sequence[str], lines: Sequence[CostLine], priced_by: str) -> str:
    """Return a page with the chart and the figures; it loads nothing."""
    chart, total = render_svg(groups, lines), sum_lines(lines)
    return _render("plot.html.jinja", groups=groups, lines=lines, total=total, prices=priced_by, chart=chart)


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader  # few reports have a chart

    environment = Environment(
        loader=PackageLoader(__name__, ""), autoescape=True, trim_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(template).render(values)


def _label(key: _Key) -> str:
    text = " · ".join(part or "-" for part in key) or "all"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _cost_of(line: CostLine) -> Decimal:
    return line.cost_usd or Decimal(0)
