"""`dragoman chat MODEL`: a conversation in the terminal that can change its model."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.events import MessageComplete
from dragoman.cli.io.client import base_url_setting, command_client
from dragoman.cli.io.console import console
from dragoman.cli.io.loading import load_local
from dragoman.cli.io.regular_files import check_regular
from dragoman.cli.io.terminal import EventPrinter, show_preview, usage_line
from dragoman.session import Session

HELP = """/model MODEL     switch to another model
/preview MODEL   show what that switch would lose and cost
/compact         replace the older part of the conversation by a summary; /compact WORDS instructs its writer
/cost            show the cost of the session so far
/save FILE       write the session to a file; `dragoman chat --load FILE` continues it
/help            show this list
/quit            leave; so does Ctrl-D. Ctrl-C cancels the answer and keeps the session"""


def chat(
    model: Annotated[str, typer.Argument(help="provider:model, e.g. local:smollm2-135m")],
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    load: Annotated[Path | None, typer.Option(help="A session that /save wrote.", exists=True, dir_okay=False)] = None,
    base_url: Annotated[str | None, typer.Option(help="A base URL for the provider.")] = None,
) -> None:
    """Chats with a model; /help lists the other commands."""
    out = console()
    if load is not None:
        check_regular(load)
    client = command_client(base_url_setting(model, base_url))
    session = client.session(model, system=system) if load is None else client.load(load.read_bytes(), model=model)
    with session:
        out.print(f"[bold]{escape(str(session.model))}[/] [dim]/help lists the commands[/]")
        while (line := _read_line(out)) is not None:
            if line.startswith("/"):
                if not _command(out, session, line):
                    return
            elif line:
                _turn(out, session, line)


def _read_line(out: Console) -> str | None:
    try:
        return out.input("[bold blue]> [/]").strip()
    except EOFError:
        return None
    except KeyboardInterrupt:
        out.print()
        return ""


def _turn(out: Console, session: Session, line: str) -> None:
    printer = EventPrinter(out)
    try:
        load_local(out, str(session.model))
        for event in session.stream(line):
            printer.show(event)
            if isinstance(event, MessageComplete):
                printer.end()
                out.print(f"[dim]{escape(usage_line(event.message))}[/]", soft_wrap=True)
    except KeyboardInterrupt:
        printer.end()
        out.print("[yellow]cancelled; the session continues[/]")
    except DragomanError as error:
        printer.end()
        out.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)


def _command(out: Console, session: Session, line: str) -> bool:
    """Run a slash command; False ends the chat."""
    name, _, argument = line[1:].partition(" ")
    if name in ("quit", "exit", "q"):
        return False
    commands: dict[str, Callable[[], None]] = {
        "model": lambda: show_preview(out, session.swap(argument.strip())),
        "preview": lambda: show_preview(out, session.preview(argument.strip())),
        "compact": lambda: _compact(out, session, argument.strip()),
        "cost": lambda: out.print(escape(f"{session.cost} · {session.usage.total_tokens:,} tokens")),
        "save": lambda: _save(out, session, argument.strip()),
        "help": lambda: out.print(HELP, markup=False),
    }
    run = commands.get(name)
    if run is None:
        out.print(f"[yellow]unknown command /{escape(name)}; /help lists the commands[/]")
        return True
    try:
        run()
    except KeyboardInterrupt:
        out.print("[yellow]cancelled; the session continues[/]")
    except (DragomanError, OSError) as error:
        out.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
    return True


def _compact(out: Console, session: Session, words: str) -> None:
    summary = session.compact(instructions=words or None)
    out.print(summary.text, style="dim", markup=False, soft_wrap=True)
    out.print(f"[dim]{escape(usage_line(summary))}[/]", soft_wrap=True)


def _save(out: Console, session: Session, name: str) -> None:
    if not name:
        out.print("[yellow]/save needs a file name[/]")
        return
    path = Path(name).expanduser()
    path.write_bytes(session.dump())
    out.print(f"saved to {escape(str(path))}")
