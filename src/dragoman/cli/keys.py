"""`dragoman keys …`: stores, lists and removes API keys. No command shows a key."""

import os
import sys
import warnings
from getpass import GetPassWarning, getpass
from typing import Annotated

import typer

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.cli.io.console import console, print_table, show_line
from dragoman.cli.io.inputs import read_line
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.stored_keys import StoredKeys
from dragoman.credentials.target import takes_key

app = typer.Typer(help="Store, list and remove API keys.")

_WIDTH = 100

Provider = Annotated[str, typer.Argument(help="The provider, e.g. anthropic.")]


@app.callback(invoke_without_command=True)
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@app.command("set")
def set_(provider: Provider) -> None:
    """Stores the API key of a provider: in the keyring if keyring is installed, else in a file that only you can read.

    It is read without being shown, or as one line from a pipe.
    """
    endpoint = adapter_class(provider).endpoint
    if not takes_key(endpoint):
        raise ConfigurationError(f"{provider} needs no API key")
    place = StoredKeys().set(provider, _read_key(provider))
    console().print(show_line(f"the key for {provider} is stored: {place}"))
    if variable := _set_variable(provider):
        console().print(f"[yellow]{show_line(variable)} is set, and goes first[/]")


@app.command("list")
def list_() -> None:
    """Lists the providers with a key, and where it is. A key in the environment goes first."""
    places = StoredKeys().places()
    rows = []
    for provider in sorted({*places, *providers()}):
        variable = _set_variable(provider)
        if provider in places or variable:
            stored = places.get(provider)
            place = f"environment, {variable}" + (f"; not used: {stored}" if stored else "") if variable else stored
            rows.append((provider, str(place)))
    if rows:
        print_table(console(min_width=_WIDTH), ("provider", "key"), rows)
    else:
        console().print("no key is stored: dragoman keys set PROVIDER")


@app.command()
def remove(provider: Provider) -> None:
    """Removes the stored API key of a provider. Variables of the environment stay."""
    if not StoredKeys().remove(provider):
        raise ConfigurationError(f"no key is stored for {provider!r:.80}: dragoman keys list shows those that are")
    console().print(show_line(f"the key for {provider} is removed"))


def _read_key(provider: str) -> ApiKey:
    try:
        if sys.stdin is None or not sys.stdin.isatty():
            return ApiKey(read_line())
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            return ApiKey(getpass(f"API key for {provider}: "))
    except GetPassWarning:
        raise ConfigurationError("this terminal shows what you type: pass the key through a pipe") from None
    except EOFError:
        return ApiKey("")


def _set_variable(provider: str) -> str | None:
    """Return the variable of the environment that holds the provider's key."""
    if provider not in providers():
        return None
    variables = adapter_class(provider).endpoint.key_variables
    return next((variable for variable in variables if os.environ.get(variable, "").strip()), None)
