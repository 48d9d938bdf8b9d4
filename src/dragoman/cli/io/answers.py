"""Writes an answer as it arrives: exactly to a file or a pipe, as rendered Markdown to a terminal."""

import time
from typing import IO, Protocol

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, SegmentLines
from rich.text import Text

from dragoman.cli.io.console import write_foreign

_FENCES = ("```", "~~~")
_LIST_MARKS = ("- ", "* ", "+ ")
_REFRESH_SECONDS = 0.1
_MAX_TAIL = 12
"""Lines of the unfinished part that a terminal shows."""


class AnswerWriter(Protocol):
    """Writes a text in pieces. ``end`` writes what is left, and ends the line."""

    def write(self, text: str) -> None: ...

    def end(self) -> None: ...


def answer_writer(out: Console) -> AnswerWriter:
    """Return the writer for the file of the console."""
    return markdown_writer(out) or PlainWriter(out.file)


def markdown_writer(out: Console) -> "MarkdownWriter | None":
    """Return the writer of a real terminal, else None. FORCE_COLOR makes no terminal of a pipe."""
    is_able = out.file.isatty() and not out.is_dumb_terminal and not out.options.ascii_only
    return MarkdownWriter(out) if is_able else None


class PlainWriter:
    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._at_line_start = True

    def write(self, text: str) -> None:
        if text:
            write_foreign(self._file, text)
            self._at_line_start = False

    def end(self) -> None:
        if not self._at_line_start:
            self._file.write("\n")
            self._file.flush()
            self._at_line_start = True


class MarkdownWriter:
    """Prints each block of Markdown when it is complete. Until then, its last lines are shown as they arrive."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._blocks = MarkdownBlocks()
        self._live: Live | None = None
        self._refreshed = 0.0
        self._has_printed = False

    def write(self, text: str) -> None:
        for block in self._blocks.feed(text):
            self._print(block)
        if self._blocks.rest.strip() and (now := time.monotonic()) - self._refreshed >= _REFRESH_SECONDS:
            self._refreshed = now
            self._show(self._blocks.rest)

    def end(self) -> None:
        rest, self._blocks = self._blocks.rest, MarkdownBlocks()
        self._stop()
        if rest.strip():
            self._print(rest)
        self._has_printed = False

    def _print(self, block: str) -> None:
        self._stop()
        if self._has_printed:
            self._out.print()
        # Links are shown with their addresses: the text of a link may promise another one.
        lines = self._out.render_lines(Markdown(block, hyperlinks=False), pad=False)
        while lines and _is_empty(lines[0]):  # rich begins some blocks with an empty line
            lines = lines[1:]
        self._out.print(SegmentLines(lines, new_lines=True), end="")
        self._has_printed = True

    def _show(self, rest: str) -> None:
        if self._live is None:
            self._live = Live(
                console=self._out, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        tail = min(_MAX_TAIL, max(self._out.height - 2, 1))
        self._live.update(Text("\n".join(rest.rstrip("\n").split("\n")[-tail:])), refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _is_empty(line: list[Segment]) -> bool:
    """Whether nothing of the line can be seen."""
    return not any(part.text.strip() or (part.style and part.style.bgcolor) for part in line)


class MarkdownBlocks:
    """Splits Markdown that arrives in pieces into blocks that can be rendered one by one.

    A block ends at an empty line outside a fence, if the next line is not indented and does not continue a list.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""
        self._ends = False
        """Whether the block ends if the next line does not continue it."""

    @property
    def rest(self) -> str:
        """The block that is not complete."""
        return "\n".join([*self._lines, self._line])

    def feed(self, text: str) -> list[str]:
        """Take the next piece, and return the blocks that are complete."""
        *lines, self._line = (self._line + text).split("\n")
        return [block for line in lines if (block := self._take_line(line))]

    def _take_line(self, line: str) -> str:
        """Return the block that ends before this line, or an empty text."""
        block = ""
        if not self._fence and not line.strip():
            self._ends = any(each.strip() for each in self._lines)
        elif self._ends:
            if not (line[0].isspace() or (_is_list(line) and _is_list(self._lines[0]))):
                block, self._lines = "\n".join(self._lines), []
            self._ends = False
        if self._lines or line.strip():
            self._lines.append(line)
        self._track_fence(line.strip())
        return block

    def _track_fence(self, line: str) -> None:
        if self._fence:
            if line.startswith(self._fence) and not line.strip(self._fence[0]):
                self._fence = ""
        elif line.startswith(_FENCES):
            mark = line[0]
            self._fence = mark * (len(line) - len(line.lstrip(mark)))


def _is_list(line: str) -> bool:
    number = line.partition(".")[0]
    return line.startswith(_LIST_MARKS) or (number.isdecimal() and line[len(number) :].startswith(". "))
