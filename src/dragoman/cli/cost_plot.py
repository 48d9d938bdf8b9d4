"""Costs as bars: one SVG picture, alone or in a page of HTML that needs nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from html import escape
from importlib import import_module
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.pricing.lines import CostLine, total

_COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0",
)  # fmt: skip
# Pixels.
_ROW, _BAR, _TOP, _BARS, _RIGHT = 26, 18, 40, 520, 190
_LETTER = 8
_LONGEST = 48

_Key = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """One bar: what it stands for, altogether, and the lines that it is made of."""

    label: str
    whole: CostLine
    lines: Sequence[CostLine]


def write_plot(path: Path, groups: Sequence[str], lines: Sequence[CostLine], priced_by: str) -> None:
    """Draws the lines into a file, whose suffix says how.

    Raises ConfigurationError for another suffix than .html, .svg and .png, and MissingExtraError for a PNG without
    the package that makes one of an SVG.
    """
    match path.suffix.lower():
        case ".svg":
            path.write_text(svg(groups, lines), encoding="utf-8")
        case ".html":
            path.write_text(html(groups, lines, priced_by), encoding="utf-8")
        case ".png":
            path.write_bytes(_png(svg(groups, lines)))
        case _:
            raise ConfigurationError(f"{path}: a plot is .html, .svg or .png")


def svg(groups: Sequence[str], lines: Sequence[CostLine]) -> str:
    """One bar for each value of the first group, divided by the others. What is unknown has no bar, but says so."""
    rows = list(_rows(lines))
    parts_named = sorted({line.key[1:] for line in lines if line.key[1:]}, key=_label)
    colours = {key: _COLOURS[place % len(_COLOURS)] for place, key in enumerate(parts_named)}
    dearest = max((_dollars(row.whole) for row in rows), default=Decimal(0)) or Decimal(1)
    left = _LETTER * max((len(row.label) for row in rows), default=0) + 20
    width, height = left + _BARS + _RIGHT, _TOP + _ROW * (len(rows) + len(colours)) + 20
    drawn = [f'<text x="10" y="22" font-weight="bold">Cost by {escape(", ".join(groups))}</text>']
    for place, row in enumerate(rows):
        drawn += _bar(row, _TOP + _ROW * place, left, dearest, colours)
    for place, (key, colour) in enumerate(colours.items(), len(rows)):
        top = _TOP + _ROW * place + 10
        drawn.append(f'<rect x="{left}" y="{top}" width="12" height="12" fill="{colour}"/>')
        drawn.append(f'<text x="{left + 20}" y="{top + 11}">{escape(_label(key))}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1b1e23">\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def html(groups: Sequence[str], lines: Sequence[CostLine], priced_by: str) -> str:
    """A page with the picture and the figures; it loads nothing."""
    titles = "".join(f"<th>{escape(title)}</th>" for title in (*groups, "replies", "tokens in", "tokens out", "cost"))
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td>{escape(part or '-')}</td>" for part in line.key)
        + "".join(f'<td class="n">{escape(text)}</td>' for text in _figures(line))
        + "</tr>"
        for line in lines
    )
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Cost by {escape(", ".join(groups))}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1e23; background: #fff }}
table {{ border-collapse: collapse; margin-top: 1rem }}
th, td {{ padding: .2rem .8rem .2rem 0; text-align: left }}
.n {{ text-align: right; font-variant-numeric: tabular-nums }}
</style>
<h1>{escape(str(total(lines)))}</h1>
<p>{escape(priced_by)}</p>
{svg(groups, lines)}<table>
<tr>{titles}</tr>
{rows}
</table>
</html>
"""


def _rows(lines: Sequence[CostLine]) -> Iterator[_Row]:
    bars: dict[_Key, list[CostLine]] = {}
    for line in lines:
        bars.setdefault(line.key[:1], []).append(line)
    for key, parts in bars.items():
        yield _Row(_label(key), replace(total(parts), key=key), parts)


def _bar(row: _Row, top: int, left: int, dearest: Decimal, colours: Mapping[_Key, str]) -> Iterator[str]:
    text = top + _BAR - 4
    yield f'<text x="{left - 10}" y="{text}" text-anchor="end">{escape(row.label)}</text>'
    start = float(left)
    for line in row.lines:
        length = float(_dollars(line) / dearest * _BARS)
        if length:
            fill = colours.get(line.key[1:], _COLOURS[0])
            title = escape(f"{_label(line.key)}: {line}")
            yield (
                f'<rect x="{start:.2f}" y="{top}" width="{length:.2f}" height="{_BAR}" fill="{fill}">'
                f"<title>{title}</title></rect>"
            )
            start += length
    yield f'<text x="{start + 8:.2f}" y="{text}">{escape(str(row.whole))}</text>'


def _png(picture: str) -> bytes:
    try:
        cairosvg = import_module("cairosvg")
    except (ModuleNotFoundError, OSError):  # the latter without the system's cairo
        raise MissingExtraError(
            "a PNG needs cairosvg and the cairo library: pip install cairosvg; .svg and .html need nothing"
        ) from None
    made: bytes = cairosvg.svg2png(bytestring=picture.encode(), scale=2)
    return made


def _label(key: _Key) -> str:
    text = " · ".join(part or "-" for part in key) or "all"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _figures(line: CostLine) -> tuple[str, ...]:
    return f"{line.replies:,}", f"{line.prompt_tokens:,}", f"{line.output_tokens:,}", str(line)


def _dollars(line: CostLine) -> Decimal:
    return line.cost_usd or Decimal(0)
