"""Shows a session in a terminal: one format for each kind of event.

An answer is written as it arrives: exactly to a file or a pipe, as rendered Markdown to a terminal.
"""

import time
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import dropwhile
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import SegmentLines
from rich.text import Text

from dragoman.adapter import wirejson
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.events import MessageComplete, OutputRetry, TextDelta, ThinkingDelta, ToolUseEnd, ToolUseStart
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.cli.io.console import show_line, write_foreign
from dragoman.session import Reply
from dragoman.session.effects import SessionEvent, ToolAnswered
from dragoman.session.preview import Preview
from dragoman.session.stream import ReplyStream

_FENCES = ("```", "~~~")
_LIST_MARKS = ("- ", "* ", "+ ")
_REFRESH_SECONDS = 0.1
_MAX_TAIL = 12
"""Lines of the unfinished part that a terminal shows."""


def answer_writer(out: Console) -> "AnswerWriter":
    """Return the writer for the file of the console."""
    return markdown_writer(out) or PlainWriter(out.file)


def markdown_writer(out: Console) -> "MarkdownWriter | None":
    """Return the writer of a real terminal, else None. FORCE_COLOR makes no terminal of a pipe."""
    is_able = out.file.isatty() and not out.is_dumb_terminal and not out.options.ascii_only
    return MarkdownWriter(out) if is_able else None


class PlainWriter:
    """Writes a text as it is."""

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
            if self._live is None:
                self._live = Live(
                    console=self._out, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
                )
                self._live.start()
            tail = self._blocks.rest.rstrip("\n").split("\n")[-min(_MAX_TAIL, max(self._out.height - 2, 1)) :]
            self._live.update(Text("\n".join(tail)), refresh=True)

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
        # rich begins some blocks with lines in which nothing can be seen
        lines = list(
            dropwhile(
                lambda line: not any(part.text.strip() or (part.style and part.style.bgcolor) for part in line), lines
            )
        )
        self._out.print(SegmentLines(lines, new_lines=True), end="")
        self._has_printed = True

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


AnswerWriter = PlainWriter | MarkdownWriter
"""Writes a text in pieces. ``end`` writes what is left, and ends the line."""


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
        text = line.strip()
        if self._lines or text:
            self._lines.append(line)
        if self._fence:
            if text.startswith(self._fence) and not text.strip(self._fence[0]):
                self._fence = ""
        elif text.startswith(_FENCES):
            self._fence = text[0] * (len(text) - len(text.lstrip(text[0])))
        return block


def _is_list(line: str) -> bool:
    number = line.partition(".")[0]
    return line.startswith(_LIST_MARKS) or (number.isdecimal() and line[len(number) :].startswith(". "))


_MAX_RESULT = 240


class EventPrinter:
    """Prints a stream as it arrives. Thinking is dim, calls and results are on lines of their own, and so are the
    tokens and the cost of each reply."""

    def __init__(
        self, out: Console, writer: AnswerWriter | None = None, *, indent: str = "", thinking: bool = True
    ) -> None:
        """``writer`` writes the text of the answer; by default it is printed as it is. ``indent`` begins the line of
        the tokens. ``thinking``: whether it is shown."""
        self._out = out
        self._thinking = thinking
        self._indent = indent
        self._writer = writer
        self._at_line_start = True
        self._names: dict[str, str] = {}

    def show_stream(self, stream: ReplyStream[Any]) -> Reply[Any]:
        """Print a whole stream. An error after it begins on a line of its own, and a terminal gets its cursor back."""
        try:
            with stream:
                for event in stream:
                    self.show(event)
        finally:
            self.end()
        return stream.reply

    def show(self, event: SessionEvent) -> None:
        match event:
            case TextDelta():
                if self._writer is None:
                    self._write(event.text)
                else:
                    self._end_line()
                    self._writer.write(event.text)
            case ThinkingDelta() if event.text and self._thinking:
                self._write(event.text, style="dim italic")
            case ToolUseStart():
                self._names[event.tool_use_id] = event.tool_name
            case ToolUseEnd():
                name = self._names.get(event.tool_use_id, "?")
                arguments = wirejson.dumps_text(event.final_input)
                self._line(f"[cyan]→ {show_line(name)}[/] {show_line(arguments)}")
            case ToolAnswered():
                text = " ".join(getattr(part, "text", f"[{part.type}]") for part in event.result.content)
                mark, colour = ("✗", "red") if event.result.is_error else ("←", "green")
                self._line(f"[{colour}]{mark} {show_line(event.tool_name)}[/] {show_line(_shorten(text))}")
            case MessageComplete():
                self.end()
                self._out.print(f"{self._indent}[dim]{show_line(usage_line(event.message))}[/]")
            case OutputRetry():
                problems = "; ".join(map(str, event.problems))
                self._line(f"[yellow]not valid, and asked again:[/] {show_line(_shorten(problems))}")
            case _:
                pass

    def end(self) -> None:
        """Write what is left, and end the current line, if there is one."""
        if self._writer is not None:
            self._writer.end()
        self._end_line()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._out.print()
            self._at_line_start = True

    def _write(self, text: str, style: str | None = None) -> None:
        self._out.print(text, end="", style=style, markup=False)
        self._at_line_start = text.endswith("\n")

    def _line(self, markup: str) -> None:
        self.end()
        self._out.print(f"  {markup}")


def show_losses(out: Console, losses: Iterable[Loss]) -> None:
    """Print what a request could not carry, if content is gone or reduced."""
    for loss in losses:
        if loss.severity is Severity.WARNING:
            out.print(f"[yellow]lost:[/] {show_line(loss.reason)}")


def usage_line(reply: Message) -> str:
    """Return the tokens and cost of one reply on one line."""
    usage = reply.usage
    if usage is None:
        return f"{reply.metadata.model} · the provider reported no tokens"
    parts = [reply.metadata.model or "", f"{usage.prompt_tokens:,} in, {usage.output_tokens:,} out", cost_text(usage)]
    if usage.latency_ms is not None:
        parts.append(f"{usage.latency_ms / 1000:.1f} s")
    return " · ".join(parts)


def cost_text(usage: Usage) -> str:
    """Return the cost as text; an unknown one is marked as unknown, never shown as 0."""
    if usage.cost_status is CostStatus.FREE:
        return "free"
    if usage.cost_usd is None or usage.cost_status not in (CostStatus.PRICED, CostStatus.PARTIAL):
        return "price unknown"
    if usage.cost_status is CostStatus.PARTIAL:
        return f"at least ${usage.cost_usd:.6f} (no price for {', '.join(usage.unpriced)})"
    return f"${usage.cost_usd:.6f}"


def show_preview(out: Console, preview: Preview) -> None:
    """Print a preview, with its losses coloured by severity."""
    head, *rest = str(preview).splitlines()
    out.print(f"  [bold]{show_line(head)}[/]")
    for line in rest:
        is_lossy = any(loss.severity is Severity.WARNING for loss in preview.losses) or not preview.fits
        out.print(f"  [{'yellow' if is_lossy else 'dim'}]{show_line(line)}[/]")


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_RESULT else flat[:_MAX_RESULT] + "…"


def load_local(out: Console, model: str) -> None:
    """Loads the model if it runs in this process and is not loaded yet, and prints how long that took.

    Meanwhile a terminal shows a spinner; other outputs get a line of text. Raises as a request to that model does.
    """
    adapter = get_adapter(model)
    if adapter.transport != "local":
        return
    from dragoman.local.model import get_model  # most commands use a provider

    took_time = False
    began = time.monotonic()
    with ExitStack() as spinner:

        def show(text: str) -> None:
            nonlocal took_time
            took_time = True
            if out.is_interactive:
                spinner.enter_context(out.status(show_line(text)))
            else:
                out.print(show_line(text), soft_wrap=True)

        get_model(adapter.model, show)
    if took_time:
        out.print(f"loaded {show_line(adapter.model)} in {time.monotonic() - began:.1f} s", soft_wrap=True)
