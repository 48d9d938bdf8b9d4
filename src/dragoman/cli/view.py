"""`dragoman view SOURCE`: a conversation as one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.console import console, counted, show_line
from dragoman.cli.io.conversations.sources import load_conversation


def view(
    source: Annotated[
        str, typer.Argument(help="A session, cassette, store (a file or URL) or other history; or a session's id.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file of the page; the default is the source's name in this folder."),
    ] = None,
    of: Annotated[str | None, typer.Option("--from", help="The format to read; detected by default.")] = None,
    only: Annotated[
        str | None, typer.Option(help="The name or id of one conversation, if the source holds several.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="The store that holds the session; the default is your own store.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for a provider's message lists.")] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    raw: Annotated[bool, typer.Option(help="Include the raw requests and replies.")] = True,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Writes a conversation as one HTML page. It is self-contained and uses no network."""
    from dragoman.view import page

    loaded = load_conversation(source, source_format=of, only=only, store=store, model=model)
    path = output or Path(f"{loaded.file_name}.html")
    text = page(
        loaded.messages,
        title=title or loaded.title,
        attempts=loaded.attempts,
        tool_ids=loaded.tool_ids,
        next_model=loaded.model,
        raw=raw,
    )
    if path.is_dir():
        path = path / f"{loaded.file_name}.html"
    if output is None and path.exists():
        raise ConfigurationError(f"{path} exists already: name another file with --output")
    path.write_text(text, encoding="utf-8", newline="")
    console().print(f"{show_line(str(path))}, {counted(len(loaded.messages), 'message')}", soft_wrap=True)
    if open_browser:
        typer.launch(str(path))
