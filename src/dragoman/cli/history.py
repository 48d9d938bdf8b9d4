"""`dragoman history`: the conversations that `ask` and `chat` have kept."""

from typing import Annotated, Any

import typer
from rich.table import Table

from dragoman.cli.io.client import own_store
from dragoman.cli.io.console import console, show_line
from dragoman.cli.io.conversations import ConversationLog

_WIDTH = 110


def history(
    words: Annotated[str | None, typer.Argument(help="Only conversations that contain this text.")] = None,
    most: Annotated[int, typer.Option("--number", "-n", min=1, help="How many to list, the last used first.")] = 20,
) -> None:
    """Lists the kept conversations. `dragoman chat -r NUMBER` continues one; so does `dragoman ask -r NUMBER`."""
    out = console(min_width=_WIDTH)
    found: list[tuple[int, Any]] = []
    if (url := own_store()) is not None:
        log = ConversationLog(url, "history", read_only=True)
        try:
            found = log.find_all(words, most)
        finally:
            log.close()
    if not found:
        out.print("no kept conversation contains that text" if words else "no conversation is kept")
        return
    table = Table("", "last used", "model", "title", box=None, pad_edge=False)
    table.columns[0].justify = "right"
    for number, record in found:
        used = record.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
        table.add_row(str(number), used, show_line(record.model or "-"), show_line(record.title or record.id))
    out.print(table)
