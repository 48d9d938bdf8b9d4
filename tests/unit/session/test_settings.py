"""The arguments of sessions: typed once, told the same everywhere, and misspelt ones refused."""

import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.events import EventBus
from dragoman.formats import MessageBodySchema
from dragoman.limits import Limits
from dragoman.policy import Extensions, Pipeline
from dragoman.routing import Router
from dragoman.session import AsyncSession, Session, ask
from dragoman.session.config import SessionSettings, TurnOptions
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

STORED = {"self", "model", "system", "messages", "tool_ids", "session_id", "store"}
"""Arguments that say what a stored session holds already, and where it is kept."""


def test_settings_are_those_of_the_constructor() -> None:
    """The dictionary for load and ask names the constructor's arguments, with their types."""
    hints = get_type_hints(Session.__init__, localns=LATE)
    del hints["return"]
    assert get_type_hints(SessionSettings, localns=LATE) == {
        name: hint for name, hint in hints.items() if name not in STORED
    }


def test_options_are_those_of_adapters() -> None:
    """The dictionary for a turn names the fields of AdapterOptions, with their types; two are not the caller's. An
    answer's schema may also be that of a message body."""
    hints = get_type_hints(AdapterOptions)
    named = {field.name for field in fields(AdapterOptions)} - {"stream", "context"}
    hints["output_schema"] |= MessageBodySchema
    assert get_type_hints(TurnOptions, localns=LATE) == {name: hints[name] for name in named}


@pytest.mark.parametrize("kind", [Session, AsyncSession])
def test_constructors_show_their_arguments(kind: type[Any]) -> None:
    """To editors and to help(): no bare keyword arguments."""
    parameters = inspect.signature(kind).parameters.values()
    assert {"tools", "system", "providers", "workspace", "approve"} <= {parameter.name for parameter in parameters}
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


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
def test_a_misspelt_argument_is_a_type_error(call: Any) -> None:
    """At once, by name; type checkers say so too, as the comments of this table prove."""
    with pytest.raises(TypeError, match=r"'(tool|max_tokens)'"):
        call()


def test_one_question_needs_no_session() -> None:
    """ask() makes one, asks, and closes it."""
    wire = Wire([handwritten_anthropic("Blue.")])
    settings = SyncDriver().session({"anthropic": wire}).providers
    assert ask(ANTHROPIC, "Which colour?", system="One word.", providers=settings).text == "Blue."
    assert wire.requests[0]["system"] == "One word."
