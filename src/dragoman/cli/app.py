"""Registers the commands. Each has its own file."""

import logging

import typer

from dragoman.adapter.errors import DragomanError
from dragoman.cli import (
    ask,
    bulk,
    cassette,
    chat,
    config,
    conform,
    convert,
    cost,
    demo,
    local,
    models,
    prices,
    store,
    view,
)
from dragoman.cli.io.terminal import console

app = typer.Typer(
    name="dragoman",
    help="One conversation with any large language model: swap models mid-session, lose nothing silently.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("ask")(ask.ask)
app.command("bulk")(bulk.bulk)
app.command("chat")(chat.chat)
app.add_typer(config.app, name="config")
app.command("conform")(conform.conform)
app.command("convert")(convert.convert)
app.add_typer(cassette.app, name="cassette")
app.command("cost")(cost.cost)
app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("prices")(prices.prices)
app.command("local")(local.local)
app.add_typer(store.app, name="store")
app.command("view")(view.view)


def run() -> None:
    """Runs the app. Expected errors are one line on stderr and exit code 2, without a traceback."""
    # The commands show losses themselves; the library's log records are for programs.
    logging.getLogger("dragoman").addHandler(logging.NullHandler())
    logging.getLogger("dragoman").propagate = False
    try:
        app()
    except DragomanError as error:
        console(stderr=True).print(f"[bold red]error:[/] {_escape_error(error)}", highlight=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _escape_error(error: DragomanError) -> str:
    from rich.markup import escape

    return escape(str(error))
