"""Registers the commands. Each has its own file, which is imported when the command runs."""

import logging
import os
import re
import sys
from contextlib import redirect_stdout
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points, version
from io import StringIO, TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.canonical.log import one_line

COMMANDS = {
    "ask": "Sends one prompt to a model.",
    "bulk": "Sends a prompt for each row of a file, and writes the rows with their answers in the same order.",
    "chat": "Chats with a model; /help lists the other commands.",
    "config": "The configuration file dragoman.toml: show, check and trust it.",
    "conform": "Tests the adapters of a package against the laws of the conformance kit, without their provider.",
    "convert": "Converts conversations between common formats.",
    "cassette": "List, show, check, scrub and import cassettes.",
    "cost": "Adds up what replies cost.",
    "doctor": "Checks what Dragoman finds on this computer, and says what to do. It changes nothing.",
    "demo": "Runs one conversation over four models and shows what happens at each swap.",
    "history": "Lists the kept conversations.",
    "embed": "Writes the rows of a file in their order, each with its vector: a list of 32-bit floats.",
    "keys": "Store, list and remove API keys.",
    "models": "Lists models and their capabilities.",
    "policy": "Ready policies: list them, and write them into dragoman.toml.",
    "prices": "Shows a model's prices in US dollars per million tokens.",
    "local": "Manages the embedded model, which needs the extra `local` and one file of 98 MB.",
    "store": "Export a store for reports, migrate it, delete data, or distribute it over a cluster.",
    "view": "Writes a conversation as one HTML page.",
}
"""The commands with their summaries, so that the list of commands imports none of them."""
GATEWAY_COMMANDS = {
    "serve": "Answers clients of Messages, Chat Completions and Responses with any model.",
    "gateway": "Manages the keys of a gateway.",
}
"""The commands of the distribution dragoman-gateway, in the list even if it is not installed."""
GROUP = "dragoman.commands"
"""The entry-point group of commands of other distributions: a function, or a group of commands."""


_FILES = {"embed": "bulk", "history": "store", "local": "models", "policy": "config"}
"""The file of a command, if it is that of another one."""
_WORD = re.compile(r"[a-z]+")
_SHORTEST = 3
"""Letters that name a command, if no other one begins with them."""
_SIMILAR = 0.7


class LazyGroup(TyperGroup):
    """Imports a command when it runs. Its first letters name it, and a question needs no command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        summaries = {**COMMANDS, **GATEWAY_COMMANDS}
        for entry in entry_points(group=GROUP):
            summaries.setdefault(entry.name, f"A command of {entry.value.partition('.')[0]}.")
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in summaries.items()}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments with the whole name of the command in front: `ask`, unless they name another one.

        What may be a misspelt command is refused: it would be sent to a model, and paid for.
        """
        if not args or args[0] in self.commands:
            return args
        first = args[0]
        if first.partition("=")[0] in {name for each in self.get_params(ctx) for name in each.opts}:
            return args
        if _WORD.fullmatch(first):
            named = [name for name in self.commands if name.startswith(first)] if len(first) >= _SHORTEST else []
            if len(named) == 1:
                return [*named, *args[1:]]
            if near := named or get_close_matches(first, self.commands, cutoff=_SIMILAR):
                ctx.fail(f"no command {first!r}: write {' or '.join(near)}, or dragoman ask {first} for a question")
        return ["ask", *args]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        from platformdirs import user_config_path  # imported late: the list of commands needs none

        if (user_config_path("dragoman") / "prices" / "installed.json").exists():
            from dragoman.pricing import use_update

            try:  # damaged ones are named, and not used
                use_update()
            except ConfigurationError as error:
                print(f"warning: {one_line(str(error))}", file=sys.stderr)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:
    """Return the command `name` of its file, or of another distribution: its function, or a group of commands.
    Raises ConfigurationError if the distribution is not installed."""
    found: Any
    if name in COMMANDS:
        module = import_module(f"dragoman.cli.{_FILES.get(name, name)}")
        found = getattr(module, name, None) or module.app
    elif entries := tuple(entry_points(group=GROUP, name=name)):
        found = entries[0].load()
    else:
        raise ConfigurationError(f"dragoman {name} needs the gateway: pip install dragoman-gateway")
    if isinstance(found, typer.Typer):
        loaded: Any = typer.main.get_group(found)
        loaded.name = name
        return loaded
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(found)
    return typer.main.get_command(single)


app = typer.Typer(
    name="dragoman",
    cls=LazyGroup,
    help="One conversation with any large language model: swap models mid-session, lose nothing silently."
    " A question needs no command: dragoman 'How are you?'. The first three letters of a command are sufficient, and"
    " dgm is short for dragoman.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {version('dragoman')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The options before the command; each has a callback."""


def run() -> None:
    """Runs the app. Expected errors are one line on stderr and exit code 2, without a traceback."""
    # The commands show losses themselves; the library's log records are for programs.
    logging.getLogger("dragoman").addHandler(logging.NullHandler())
    logging.getLogger("dragoman").propagate = False
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as on stderr: not every terminal has UTF-8
    try:
        if os.environ.get("_DRAGOMAN_COMPLETE") == "complete_bash":
            _complete_in_bash()
        app(prog_name="dragoman")
    except (DragomanError, OSError) as error:
        from dragoman.cli.io.console import console, show_lines  # imported late: the list of commands needs none

        console(stderr=True).print(f"[bold red]error:[/] {show_lines(str(error))}", highlight=False)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _complete_in_bash() -> None:
    """Run the app for bash, which takes a colon for a word of its own.

    It gets the words as they were typed, and bash gets only what follows the last colon.
    """
    words, position = os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"])
    joined: list[str] = []
    at: int | None = None  # the word that the cursor is in; None after the last one
    for index, word in enumerate(words):
        if joined and (word == ":" or words[index - 1] == ":"):
            joined[-1] += word
        else:
            joined.append(word)
        if index == position:
            at = len(joined) - 1
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) if at is None else at)
    typed = "" if at is None else joined[at]
    known = len(typed.rpartition(":")[0]) + (":" in typed)
    found = StringIO()
    try:
        with redirect_stdout(found):
            app(prog_name="dragoman")
    finally:
        sys.stdout.writelines(f"{line[known:]}\n" for line in found.getvalue().splitlines())
