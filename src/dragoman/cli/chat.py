"""`dragoman chat MODEL`: a conversation in the terminal that can change its model."""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import click
import typer
from platformdirs import user_data_path
from rich.console import Console

from dragoman.adapter.errors import DragomanError, RequestError
from dragoman.canonical.blocks import ContentBlock, TextBlock
from dragoman.canonical.usage import describe_tokens
from dragoman.cli.io.console import console, show_line, show_lines
from dragoman.cli.io.conversations import describe, describe_unfinished, open_conversation
from dragoman.cli.io.inputs import attach, read_line, read_regular
from dragoman.cli.io.options import (
    BaseUrl,
    Continued,
    ModelOption,
    Options,
    OutputRetries,
    Resumed,
    SchemaFile,
    SystemPrompt,
    ToolNames,
    continued_name,
    model_argument,
    read_options,
)
from dragoman.cli.io.terminal import EventPrinter, load_local, markdown_writer, show_losses, show_preview, usage_line
from dragoman.private_files import create_private_folder, open_private
from dragoman.session import Session
from dragoman.session.config import TurnOptions
from dragoman.session.stream import ReplyStream
from dragoman.tools.calls import DECLINED

HELP = """/model MODEL     switch to another model; /swap does the same
/preview MODEL   show what that switch would lose and cost
/attach FILE     send a file, or what is at an https address, with the next message
!multi           write several lines, up to !end; several pasted lines are one message anyway
!edit            write the message in your editor
/answer RESULT   give the first tool call that waits its result; /decline REASON gives it an error
/continue        go on with a turn that was interrupted
/compact         replace the older part of the conversation by a summary; /compact WORDS instructs its writer
/cost            show the cost of the session so far
/save FILE       write the session to a file; `dragoman chat --load FILE` continues it
/help            show this list
/quit            leave; so does Ctrl-D. Ctrl-C cancels the answer and keeps the session"""
_PROMPT = "[bold blue]> [/]"
_END = "!end"
_LONG_TEXTS = ("!multi", "!edit")
_HISTORY = "chat_history.jsonl"
"""What was typed, in the folder of the kept conversations."""
_MAX_SESSION_BYTES = 1 << 30
_KEPT = 1_000
"""Texts of the history that are read again."""
_PASTE_SECONDS = 0.03
"""A line that is there so soon after another one was not typed."""
_PROMPT_COLOUR = "\001\033[1;34m\002{}\001\033[0m\002"
"""The marks tell readline what takes no room, so that it knows where the line begins."""


def chat(
    model: Annotated[str | None, model_argument("-c or --load")] = None,
    model_option: ModelOption = None,
    system: SystemPrompt = None,
    option: Options = None,
    schema: SchemaFile = None,
    output_retries: OutputRetries = None,
    tool: ToolNames = None,
    continued: Continued = False,
    resumed: Resumed = None,
    load: Annotated[Path | None, typer.Option(help="A session that /save wrote.", exists=True, dir_okay=False)] = None,
    base_url: BaseUrl = None,
) -> None:
    """Chats with a model; /help lists the other commands."""
    name = continued_name(continued, resumed)
    if name is not None and load is not None:
        raise typer.BadParameter("--continue, --resume and --load exclude each other")
    if model is not None and model_option is not None:
        raise typer.BadParameter("name the model once: as the first word, or with --model")
    out = console()
    options = read_options(option or (), schema=schema, output_retries=output_retries)
    with open_conversation(
        "chat",
        model or model_option,
        continued=name,
        dumped=None if load is None else read_regular(load, _MAX_SESSION_BYTES),
        system=system,
        tools=tool or (),
        base_url=base_url,
        mentions=True,  # whoever types here may choose the model of a message
    ) as (session, _, log):
        if name is not None:
            out.print(f"[dim]{show_line(describe(session))}[/]")
        _Chat(out, session, options, keeps=log is not None).run()


class _Chat:
    """Reads lines, and answers them. ``attached`` goes with the next message."""

    def __init__(self, out: Console, session: Session, options: TurnOptions, *, keeps: bool) -> None:
        self._out = out
        self._session = session
        self._options = options
        self._attached: list[ContentBlock] = []
        self._typed: _TypedLines | None = None
        if sys.stdin is not None and sys.stdin.isatty():
            file = user_data_path("dragoman", appauthor=False) / _HISTORY if keeps else None
            coloured = out.is_terminal and out.color_system is not None
            self._typed = _TypedLines(file, coloured=coloured)

    def run(self) -> None:
        self._out.print(f"[bold]{show_line(str(self._session.model))}[/] [dim]/help lists the commands[/]")
        if self._session.unfinished is None:
            self._show_pending()
        else:
            for line in describe_unfinished(self._session.unfinished):
                self._out.print(f"[yellow]{show_line(line)}[/]")
            self._out.print("[dim]/continue goes on with it; a new message gives it up[/]")
        while (typed := self._read_line()) is not None:
            if "\n" not in typed and typed.startswith(("/", *_LONG_TEXTS)):
                if not self._run_command(typed):
                    return
            elif typed:
                self._answer(typed)

    def _read_line(self) -> str | None:
        try:
            if self._typed is not None:
                return self._typed.read("> ")
            self._out.print(_PROMPT, end="")
            return read_line().strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._out.print()
            return ""

    def _answer(self, line: str) -> None:
        content = [*self._attached, TextBlock(text=line)]
        if self._show_turn(lambda: self._session.stream(content, **self._options)):
            self._attached = []

    def _answer_call(self, result: str | Exception) -> None:
        pending = self._session.pending
        if not pending:
            self._out.print("[yellow]no tool call waits[/]")
            return
        self._show_turn(lambda: self._session.stream_answer({pending[0].id: result}, **self._options))

    def _show_pending(self) -> None:
        reasons = self._session.pending_reasons
        for call in self._session.pending:
            reason = f": {reasons[call.id]}" if reasons.get(call.id) else ""
            waits = f"{call.name}({json.dumps(call.input, ensure_ascii=False)}) waits{reason}"
            self._out.print(f"[yellow]{show_line(waits)}[/] [dim]/answer or /decline it[/]")

    def _continue(self) -> None:
        if self._session.unfinished is None:
            self._out.print("[yellow]no turn was interrupted[/]")
            return
        self._show_turn(lambda: self._session.stream(None, **self._options))

    def _show_turn(self, start: Callable[[], ReplyStream[Any]]) -> bool:
        """Show a turn as it arrives, and the calls that wait at its end. Return whether it ended without an error."""
        out, printer, done = self._out, EventPrinter(self._out, markdown_writer(self._out)), False
        try:
            if self._session.model is not None:
                load_local(out, self._session.model)
            show_losses(out, printer.show_stream(start()).losses)
            done = True
        except KeyboardInterrupt:
            out.print("[yellow]cancelled; the session continues[/]")
        except DragomanError as error:
            out.print(f"[bold red]error:[/] {show_lines(str(error))}")
        self._show_pending()
        return done

    def _run_command(self, line: str) -> bool:
        """Run a slash command; False ends the chat."""
        out, session = self._out, self._session
        name, _, argument = line[1:].partition(" ")
        argument = argument.strip()
        if name in ("quit", "exit", "q"):
            return False
        commands: dict[str, Callable[[], None]] = {
            "model": lambda: show_preview(out, session.swap(argument)),
            "swap": lambda: show_preview(out, session.swap(argument)),
            "preview": lambda: show_preview(out, session.preview(argument)),
            "attach": lambda: self._attach(argument),
            "multi": self._read_lines,
            "edit": self._edit,
            "answer": lambda: self._answer_call(argument),
            "decline": lambda: self._answer_call(RequestError(argument or DECLINED)),
            "continue": self._continue,
            "compact": lambda: self._compact(argument),
            "cost": lambda: out.print(show_line(f"{session.cost} · {describe_tokens(session.usage)}")),
            "save": lambda: self._save(argument),
            "help": lambda: out.print(HELP, markup=False),
        }
        run = commands.get(name)
        if run is None:
            out.print(f"[yellow]unknown command /{show_line(name)}; /help lists the commands[/]")
            return True
        if name in ("attach", "save") and not argument:
            out.print(f"[yellow]/{name} needs a file name[/]")
            return True
        try:
            run()
        except KeyboardInterrupt:
            out.print("[yellow]cancelled; the session continues[/]")
        except (DragomanError, OSError) as error:
            out.print(f"[bold red]error:[/] {show_lines(str(error))}")
        return True

    def _attach(self, name: str) -> None:
        self._attached.append(attach(name))
        self._out.print(show_line(f"{name.rpartition('/')[2] or name} goes with the next message"))

    def _read_lines(self) -> None:
        """Answer the lines up to ``!end`` as one text."""
        if self._typed is None:
            text = _read_to_end(read_line)
        else:
            self._out.print(f"[dim]{_END} ends the message[/]")
            text = self._typed.read_to_end()
        if text:
            self._answer(text)

    def _edit(self) -> None:
        """Answer a text that is written in the editor of VISUAL or EDITOR."""
        text = (click.edit(extension=".md") or "").strip()
        if text:
            self._out.print(text, style="dim", markup=False)
            self._answer(text)
        else:
            self._out.print("[yellow]nothing was written[/]")

    def _compact(self, words: str) -> None:
        summary = self._session.compact(instructions=words or None)
        self._out.print(summary.text, style="dim", markup=False)
        self._out.print(f"[dim]{show_line(usage_line(summary))}[/]")

    def _save(self, name: str) -> None:
        path = Path(name).expanduser()
        path.write_bytes(self._session.dump())
        self._out.print(f"saved to {show_line(str(path))}")


class _TypedLines:
    """Reads texts from a terminal. ``history`` is the file that keeps them for later runs; None keeps nothing."""

    def __init__(self, history: Path | None, *, coloured: bool) -> None:
        self._history = history
        self._coloured = coloured
        self._readline: ModuleType | None
        try:
            import readline
        except ModuleNotFoundError:  # Windows edits lines itself
            self._readline = None
        else:
            self._readline = readline
            # A terminal marks what is pasted; Python has turned that off.
            readline.parse_and_bind("set enable-bracketed-paste on")
            readline.set_auto_history(False)
            readline.clear_history()
            with suppress(OSError, UnicodeDecodeError):
                written = "" if history is None else history.read_text(encoding="utf-8")
                for line in written.splitlines()[-_KEPT:]:
                    with suppress(ValueError):
                        if isinstance(text := json.loads(line), str):
                            readline.add_history(text)

    def read(self, prompt: str) -> str:
        """Return the next text. Raises EOFError at the end, and KeyboardInterrupt."""
        shown = _PROMPT_COLOUR.format(prompt) if self._coloured and self._readline is not None else prompt
        lines = [input(shown)]
        while _has_more():
            lines.append(input())
        text = "\n".join(lines).strip()
        if text and text not in _LONG_TEXTS:
            self._keep(text)
        return text

    def read_to_end(self) -> str:
        """Return the lines up to ``!end``, or to the end of the input."""
        text = _read_to_end(input)
        if text:
            self._keep(text)
        return text

    def _keep(self, text: str) -> None:
        if self._readline is not None:
            self._readline.add_history(text)
        if self._history is not None:
            with suppress(OSError):  # the answer matters more
                create_private_folder(self._history.parent)
                with open(self._history, "a", encoding="utf-8", opener=open_private) as file:
                    file.write(json.dumps(text) + "\n")


def _read_to_end(read: Callable[[], str]) -> str:
    """Return the lines up to ``!end``, or to the end of the input."""
    lines: list[str] = []
    with suppress(EOFError):
        while (line := read().rstrip("\r\n")).strip() != _END:
            lines.append(line)
    return "\n".join(lines).strip()


def _has_more() -> bool:
    """Whether another line was pasted with the last one, into a terminal that does not mark what is pasted."""
    if os.name != "nt":
        import select

        return bool(select.select([sys.stdin], [], [], _PASTE_SECONDS)[0])
    import msvcrt

    waits_until = time.monotonic() + _PASTE_SECONDS
    keys: Callable[[], bool] = msvcrt.kbhit  # type: ignore[attr-defined,unused-ignore]
    while time.monotonic() < waits_until:
        if keys():
            return True
        time.sleep(0.005)
    return False
