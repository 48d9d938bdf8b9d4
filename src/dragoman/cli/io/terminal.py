"""Shows a session in a terminal: one format for each kind of event."""

import time
from collections.abc import Iterable
from contextlib import ExitStack

from rich.console import Console

from dragoman.adapter import wirejson
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.events import OutputRetry, TextDelta, ThinkingDelta, ToolUseEnd, ToolUseStart
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.cli.io.answers import AnswerWriter
from dragoman.cli.io.console import show_line
from dragoman.session.effects import SessionEvent, ToolAnswered
from dragoman.session.preview import Preview

_MAX_RESULT = 240


class EventPrinter:
    """Prints a stream as it arrives. Thinking is dim, calls and results are on lines of their own."""

    def __init__(self, out: Console, writer: AnswerWriter | None = None) -> None:
        """``writer`` writes the text of the answer; by default it is printed as it is."""
        self._out = out
        self._writer = writer
        self._at_line_start = True
        self._names: dict[str, str] = {}

    def show(self, event: SessionEvent) -> None:
        match event:
            case TextDelta():
                if self._writer is None:
                    self._write(event.text)
                else:
                    self._end_line()
                    self._writer.write(event.text)
            case ThinkingDelta() if event.text:
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
        self._out.print(text, end="", style=style, markup=False, soft_wrap=True)
        self._at_line_start = text.endswith("\n")

    def _line(self, markup: str) -> None:
        self.end()
        self._out.print(f"  {markup}", soft_wrap=True)


def show_losses(out: Console, losses: Iterable[Loss]) -> None:
    """Print what a request could not carry, if content is gone or reduced."""
    for loss in losses:
        if loss.severity is Severity.WARNING:
            out.print(f"[yellow]lost:[/] {show_line(loss.reason)}", soft_wrap=True)


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
    match usage.cost_status:
        case CostStatus.FREE:
            return "free"
        case _ if usage.cost_usd is None:
            return "price unknown"
        case CostStatus.PARTIAL:
            return f"at least ${usage.cost_usd:.6f} (no price for {', '.join(usage.unpriced)})"
        case CostStatus.PRICED:
            return f"${usage.cost_usd:.6f}"
        case _:
            return "price unknown"


def show_preview(out: Console, preview: Preview) -> None:
    """Print a preview, with its losses coloured by severity."""
    head, *rest = str(preview).splitlines()
    out.print(f"  [bold]{show_line(head)}[/]", soft_wrap=True)
    for line in rest:
        is_lossy = any(loss.severity is Severity.WARNING for loss in preview.losses) or not preview.fits
        out.print(f"  [{'yellow' if is_lossy else 'dim'}]{show_line(line)}[/]", soft_wrap=True)


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
