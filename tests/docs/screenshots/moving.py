"""`python -m tests.docs.screenshots.moving FILE`: the demo's terminal as an SVG that moves, for the README.

The demo runs in a pseudo-terminal. Its lines appear one after the other, and the screen scrolls with them. The picture
has no script and loads nothing; whoever prefers less motion sees it standing still.
"""

import io
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.docs.screenshots.terminal import read_screen, run_in_terminal

COLUMNS, ROWS = 96, 24
_CELL, _LINE, _EDGE, _BAR = 8.4, 19, 16, 34
"""Pixels: the width of a character, the height of a line, the space around them, and the bar at the top."""
_SECONDS = {"part": 1.1, "line": 0.22, "end": 5.0}
"""How long a part's first line, any other line and the last screen stay."""
_PROGRAM = [sys.executable, "-c", "import sys; sys.argv = ['dragoman', 'demo']; from dragoman.cli import main; main()"]


def main(target: Path) -> None:
    lines = read_screen(run_in_terminal(_PROGRAM, []))
    picture = draw(["\x1b[32m$\x1b[0m dragoman demo", "", *lines])
    target.write_text(picture, encoding="utf-8")
    print(f"{target}: {len(picture.encode()):,} bytes")


def draw(lines: Sequence[str]) -> str:
    """Return the picture of a terminal in which the lines, with their codes for colours, appear one by one."""
    console = Console(width=COLUMNS, color_system="truecolor", file=io.StringIO())
    rows = [row for line in lines for row in console.render_lines(Text.from_ansi(line), pad=False)]
    starts = list(_moments(rows))
    total = starts[-1] + _SECONDS["end"]
    texts = "".join(_row(index, row) for index, row in enumerate(rows))
    width, height = round(COLUMNS * _CELL + 2 * _EDGE), ROWS * _LINE + 2 * _EDGE + _BAR
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="dragoman demo: one conversation over three APIs and a local model">\n'
        f"<style>{_style(starts, total)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c1d21"/>\n'
        '<circle cx="20" cy="18" r="6" fill="#ff5f57"/><circle cx="40" cy="18" r="6" fill="#febc2e"/>'
        '<circle cx="60" cy="18" r="6" fill="#28c840"/>\n'
        f'<svg y="{_BAR}" width="{width}" height="{height - _BAR - _EDGE // 2}"><g class="all">{texts}</g></svg>\n'
        "</svg>\n"
    )


def _moments(rows: Sequence[Sequence[Segment]]) -> Iterator[float]:
    """Yield the second in which each row appears, the first one at once; after an empty one there is a pause."""
    now, after_blank = -_SECONDS["line"], False
    for row in rows:
        is_blank = not "".join(segment.text for segment in row).strip()
        now += 0.0 if is_blank else _SECONDS["part" if after_blank else "line"]
        yield now
        after_blank = is_blank


def _style(starts: Sequence[float], total: float) -> str:
    share = [f"{100 * start / total:.2f}%" for start in starts]
    frames = "".join(
        f"@keyframes l{index}{{0%{{opacity:0}}{share[index]},to{{opacity:1}}}}" for index in range(len(starts))
    )
    scrolled = "".join(
        f"{share[index]}{{transform:translateY({-_LINE * (index + 1 - ROWS)}px)}}" for index in range(ROWS, len(starts))
    )
    last = -_LINE * max(0, len(starts) - ROWS)
    timing = f"{total:.1f}s step-end infinite"
    names = "".join(f".l{index}{{animation:l{index} {timing}}}" for index in range(len(starts)))
    return (
        f"text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d9d9d9;white-space:pre}}"
        f"{frames}{names}@keyframes s{{0%{{transform:none}}{scrolled}to{{transform:translateY({last}px)}}}}"
        f".all{{animation:s {timing}}}@media(prefers-reduced-motion:reduce){{*{{animation:none!important}}}}"
    )


def _row(index: int, row: Sequence[Segment]) -> str:
    y, column, pieces = _EDGE + _LINE * index, 0, []
    for segment in Segment.simplify(row):
        if words := segment.text.rstrip():
            place = f'x="{_EDGE + column * _CELL:.1f}" y="{y}" textLength="{len(words) * _CELL:.1f}"'
            pieces.append(f"<text {place}{_look(segment.style)}>{escape(words)}</text>")
        column += segment.cell_length
    return f'<g class="l{index}">{"".join(pieces)}</g>\n' if pieces else ""


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    look = "font-weight:bold;" if style.bold else ""
    look += "opacity:.6;" if style.dim else ""
    if style.color is not None and not style.color.is_default:
        look += f"fill:{style.color.get_truecolor(MONOKAI).hex};"
    return f' style="{look}"' if look else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
