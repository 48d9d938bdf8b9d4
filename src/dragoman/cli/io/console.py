"""The console of the commands. Text from models, tools and files cannot control the terminal."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tab and line end, line separators, and what reorders the text around it."""
_LINE_END = "\u240a"
_SYMBOLS = 0x2400
"""Unicode has a symbol for each control character of ASCII, from this one on."""


def show_controls(text: str) -> str:
    """Return the text with its control characters as symbols or codes, so that escape sequences do nothing."""
    return text if text.isprintable() else _CONTROLS.sub(_symbol, text.replace("\r\n", "\n"))


def show_line(text: str) -> str:
    """Return the text as markup that shows it on one line: a line end would begin a line of its own."""
    return escape(show_controls(text).replace("\n", _LINE_END))


def show_lines(text: str) -> str:
    """Return the text as markup. Each line after the first is indented, so that it is not taken for one of its own."""
    first, *others = show_controls(text).split("\n")
    return escape("\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in others)]))


def write_foreign(file: IO[str], text: str) -> None:
    """Write a text that others wrote: exactly to a file or a pipe, and without its control characters to a terminal."""
    file.write(show_controls(text) if file.isatty() else text)
    file.flush()


def counted(number: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 error`` and ``2,000 errors``."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def print_table(
    out: Console, titles: Sequence[str], rows: Iterable[Sequence[str]], *, figures: Collection[str] = ()
) -> None:
    """Print rows below their titles. The columns with one of these ``figures`` as their title end in one line."""
    from rich.table import Table  # few commands print one

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in figures else "left")
    for row in rows:
        table.add_row(*map(show_line, row))
    out.print(table)


@cache
def console(*, stderr: bool = False, min_width: int = 0) -> Console:
    """Return a console, with colours if the terminal has them. ``min_width`` is for tables: a narrower terminal would
    cut off the columns that distinguish their rows.
    """
    default = _Console(stderr=stderr, highlight=False)
    return _Console(stderr=stderr, highlight=False, width=min_width) if default.width < min_width else default


class _Console(Console):
    """Shows the control characters of all texts, and leaves their lines whole. Its colours are not part of a text."""

    def print(self, *objects: Any, **style: Any) -> None:
        style.setdefault("soft_wrap", all(isinstance(each, str) for each in objects))
        super().print(*objects, **style)

    def render_str(self, text: str, **style: Any) -> Text:
        return super().render_str(show_controls(text), **style)  # tables measure this text

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=show_controls(segment.text))


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < ord(" "):
        return chr(_SYMBOLS + code)
    return "\u2421" if found[0] == "\x7f" else f"\\u{code:04x}"
