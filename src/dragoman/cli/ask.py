"""`dragoman ask MODEL PROMPT`: one question, one streamed answer."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.events import MessageComplete, TextDelta
from dragoman.cli.io.client import base_url_setting, command_client
from dragoman.cli.io.console import console, write_foreign
from dragoman.cli.io.loading import load_local
from dragoman.cli.io.terminal import usage_line
from dragoman.session.config import TurnOptions


def ask(
    model: Annotated[str, typer.Argument(help="provider:model, e.g. local:smollm2-135m")],
    prompt: Annotated[str, typer.Argument(help="The question; - reads it from standard input.")],
    system: Annotated[str | None, typer.Option(help="A system prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The maximum number of tokens in the answer.")] = None,
    base_url: Annotated[str | None, typer.Option(help="A base URL for the provider.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the line with tokens and cost.")] = False,
) -> None:
    """Sends one prompt to a model. The answer goes to stdout, tokens and cost to stderr."""
    question = sys.stdin.read() if prompt == "-" else prompt
    if not question.strip():
        raise ConfigurationError("the prompt is empty")
    options: TurnOptions = {} if max_tokens is None else {"max_output_tokens": max_tokens}
    client = command_client(base_url_setting(model, base_url))
    with client.session(model, system=system) as session:
        if not quiet:
            load_local(console(stderr=True), str(session.model))
        for event in session.stream(question, **options):
            if isinstance(event, TextDelta):
                write_foreign(sys.stdout, event.text)
            elif isinstance(event, MessageComplete):
                sys.stdout.write("\n")
                if not quiet:
                    console(stderr=True).print(f"[dim]{escape(usage_line(event.message))}[/]", soft_wrap=True)
