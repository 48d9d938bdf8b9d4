"""`dragoman view SOURCE`: a conversation as one page of HTML, to look at."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.show import console
from dragoman.cli.view_sources import conversation_of


def view(
    source: Annotated[
        str, typer.Argument(help="A session, cassette, store (a file or URL) or other history; or a session's id.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page; here, by its name, if left out.")
    ] = None,
    of: Annotated[str | None, typer.Option("--from", help="The shape to read; told by looking, without it.")] = None,
    only: Annotated[str | None, typer.Option(help="The one conversation of that name or id, of many.")] = None,
    store: Annotated[str | None, typer.Option(help="The store that has the session, if it is not yours.")] = None,
    model: Annotated[str | None, typer.Option(help="The model's name, for lists of a provider's clients.")] = None,
    title: Annotated[str | None, typer.Option(help="What stands at the top.")] = None,
    raw: Annotated[bool, typer.Option(help="With the raw requests and replies.")] = True,
    look: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Writes a conversation as one page of HTML. It needs nothing else, and asks no network for anything."""
    from dragoman.view import page

    found = conversation_of(source, of=of, only=only, store=store, model=model)
    path = output or Path(f"{found.file_name}.html")
    text = page(
        found.messages,
        title=title or found.title,
        attempts=found.attempts,
        tool_ids=found.tool_ids,
        next_model=found.model,
        raw=raw,
    )
    if path.is_dir():
        path = path / f"{found.file_name}.html"
    if output is None and path.exists():
        raise ConfigurationError(f"{path} is there already: say where with --output")
    path.write_text(text, encoding="utf-8", newline="")
    console().print(f"{escape(str(path))}, {len(found.messages):,} messages", soft_wrap=True)
    if look:
        typer.launch(str(path))
