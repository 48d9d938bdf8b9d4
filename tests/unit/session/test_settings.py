"""The arguments of sessions: typed once, the same everywhere; misspelt ones are refused."""

import pydoc
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError
from dragoman.events import EventBus
from dragoman.formats import MessageBodySchema
from dragoman.limits import Limits
from dragoman.policy import Extensions, Pipeline
from dragoman.routing import Router
from dragoman.session import AsyncSession, Session, ask
from dragoman.session.config import SessionConfig, SessionSettings, TurnOptions
from tests.unit.session.drivers import ANTHROPIC, SyncDriver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

LATE = {
    "Router": Router,
    "EventBus": EventBus,
    "Limits": Limits,
    "MessageBodySchema": MessageBodySchema,
    "Pipeline": Pipeline,
    "Extensions": Extensions,
}
"""Not imported before they are needed."""

SCREEN = 60
"""Lines of help that a person reads at once."""
FIRST_SCREEN = 40


def test_settings_are_those_of_the_config() -> None:
    """The dictionary of keyword arguments names the fields of the config; with their types, except those that the
    config reads: the client, and the settings of providers."""
    hints = get_type_hints(SessionConfig, localns=LATE)
    del hints["own_providers"]  # derived
    del hints["store"]  # an argument of its own: a stored session knows its store
    accepted = get_type_hints(SessionSettings, localns=LATE)
    assert accepted.keys() - hints.keys() == {"api_key", "base_url"}  # parts of ``providers``
    for name in ("client", "providers"):
        del hints[name], accepted[name]
    assert {name: accepted[name] for name in hints} == hints


def test_options_are_those_of_adapters() -> None:
    """The dictionary for a turn names the fields of AdapterOptions, with their types; two are not the caller's, and
    two more options are for typed answers."""
    hints = get_type_hints(AdapterOptions)
    named = {field.name for field in fields(AdapterOptions)} - {"stream", "context"}
    typed = {"output_retries": int, "partial_strings": bool}
    assert get_type_hints(TurnOptions, localns=LATE) == {name: hints[name] for name in named} | typed


def test_the_first_screen_of_help_names_every_method() -> None:
    """help(Session) begins with the signature and one line for each group of methods, before the details."""
    lines = pydoc.render_doc(Session, renderer=pydoc.plaintext).splitlines()  # type: ignore[attr-defined]
    first_screen = "\n".join(lines[:FIRST_SCREEN])
    public = {name for name in dir(Session) if not name.startswith("_")} - {"user_id", "team_id"}
    settings = {"max_rounds", "providers"}  # described with the configuration
    assert [name for name in sorted(public - settings) if name not in first_screen] == []


@pytest.mark.parametrize("thing", [Session.__init__, Session.ask, AsyncSession.ask, Session.stream])
def test_help_fits_on_a_screen(thing: Any) -> None:
    """The signature and the docstring of what programs call first are short."""
    assert len(pydoc.render_doc(thing, renderer=pydoc.plaintext).splitlines()) <= SCREEN  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Session(ANTHROPIC, tool=[]),  # type: ignore[call-arg]
        lambda: AsyncSession(ANTHROPIC, tool=[]),  # type: ignore[call-arg]
        lambda: Session.load(Session(ANTHROPIC).dump(), tool=[]),  # type: ignore[call-arg]
        lambda: ask(ANTHROPIC, "Hi", tool=[]),  # type: ignore[call-arg]
        lambda: Session(ANTHROPIC).ask("Hi", max_tokens=3),  # type: ignore[call-arg]
        lambda: Session(ANTHROPIC).stream("Hi", max_tokens=3),  # type: ignore[call-arg]
        lambda: AsyncSession(ANTHROPIC).stream("Hi", max_tokens=3),  # type: ignore[call-arg]
    ],
)
def test_a_misspelt_argument_is_answered_with_the_nearest_name(call: Any) -> None:
    """At once, by name; type checkers report it too, as the comments of this table show."""
    expected = r"'tool'; did you mean 'tools'|'max_tokens'; write max_output_tokens=3"
    with pytest.raises(ConfigurationError, match=expected):
        call()


def test_ask_needs_no_session() -> None:
    """ask() makes one, asks, and closes it."""
    wire = Wire([handwritten_anthropic("Blue.")])
    settings = SyncDriver().session({"anthropic": wire}).providers
    assert ask(ANTHROPIC, "Which colour?", system="One word.", providers=settings).text == "Blue."
    assert wire.requests[0]["system"] == "One word."


@pytest.mark.parametrize("setting", ["extra", "headers"])
def test_extra_and_headers_of_an_unknown_provider_are_refused(setting: str) -> None:
    """They would reach nobody."""
    session = Session("openai:gpt-5.4", providers={"openai": {"api_key": "k"}})
    with pytest.raises(ConfigurationError, match=f"unknown provider in {setting}: 'opnai'; did you mean 'openai'"):
        session.ask("Hi", **{setting: {"opnai": {"x": "1"}}})
