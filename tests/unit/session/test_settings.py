"""The arguments of sessions: typed once, the same everywhere; misspelt ones are refused."""

import pydoc
import re
from inspect import signature
from typing import Any

import pytest

from dragoman import Budget, EventBus, Limit, Limits, Pipeline, Router, ToolDefinition
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import BulkSettings, bulk
from dragoman.client import AsyncClient, Client
from dragoman.configuration import ClientSettings
from dragoman.session import AsyncSession, Session, ask
from dragoman.session.config import NewSessionSettings, QuestionSettings, SessionConfig, TurnOptions
from dragoman.session.settings import RequestOptions
from dragoman.transport.settings import ProviderSettings
from tests.unit.session.drivers import ANTHROPIC, SyncDriver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

FIRST_SCREEN = 40


def test_the_first_screen_of_help_names_every_method() -> None:
    """help(Session) begins with the signature and one line for each group of methods, before the details."""
    lines = pydoc.render_doc(Session, renderer=pydoc.plaintext).splitlines()  # type: ignore[attr-defined]
    first_screen = "\n".join(lines[:FIRST_SCREEN])
    public = {name for name in dir(Session) if not name.startswith("_")} - {"user_id", "team_id"}
    settings = {"max_rounds", "providers"}  # described with the configuration
    assert [name for name in sorted(public - settings) if name not in first_screen] == []


PROSE = 30
"""Lines that a person reads before the settings begin."""
LINES_OF_A_SETTING = 1.6
"""On average, with the blank lines between groups."""


@pytest.mark.parametrize("thing", [Session.__init__, Session.ask, AsyncSession.ask, Session.stream, bulk, ask])
def test_help_is_short(thing: Any) -> None:
    """The signature and the prose fit on a screen, and then each setting has a line or two.

    The list of all settings takes longer than a screen. It is worth that: a setting that help does not show is looked
    for on the web, and a list is searched, not read.
    """
    text = pydoc.render_doc(thing, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    prose, _, settings = text.partition("Args:\n")
    assert len(prose.splitlines()) <= PROSE
    names = re.findall(r"^ +(\w+): ", settings, re.MULTILINE)
    assert len(settings.splitlines()) <= LINES_OF_A_SETTING * len(names)


@pytest.mark.parametrize("thing", [Session, AsyncSession, ask, bulk, Session.ask, Session.stream])
def test_a_signature_is_short_and_keeps_names(thing: Any) -> None:
    """``?`` shows a prompt as UserInput, and the settings as one argument."""
    parameters = signature(thing).parameters
    assert len(parameters) <= 7
    if "prompt" in parameters:
        assert "UserInput" in str(parameters["prompt"])


@pytest.mark.parametrize(
    ("thing", "settings"),
    [
        (Session, [NewSessionSettings, TurnOptions]),
        (AsyncSession, [NewSessionSettings, TurnOptions]),
        (Client, [ClientSettings]),
        (AsyncClient, [ClientSettings]),
        (bulk, [BulkSettings]),
        (ask, [QuestionSettings]),
        (AdapterOptions, [RequestOptions]),
        (ProviderSettings, [ProviderSettings]),
    ],
)
def test_help_shows_every_setting(thing: Any, settings: list[Any]) -> None:
    """Each one has a line with its sentence."""
    text = pydoc.render_doc(thing, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    lines = dict(re.findall(r"^[ |]+(\w+): ([A-Z].{8,}[.\w,:;])$", text, re.MULTILINE))
    assert {name for each in settings for name in each.__annotations__} - lines.keys() == set()


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
    """Type checkers report it too, as the comments of this table show."""
    expected = r"'tool'; did you mean 'tools'|'max_tokens'; write max_output_tokens=3"
    with pytest.raises(ConfigurationError, match=expected):
        call()


def test_ask_needs_no_session() -> None:
    """ask() makes one, asks, and closes it."""
    wire = Wire([handwritten_anthropic("Blue.")])
    settings = SyncDriver().session({"anthropic": wire}).providers
    assert ask(ANTHROPIC, "Which colour?", system="One word.", providers=settings).text == "Blue."
    assert wire.requests[0]["system"] == "One word."


TOOL = ToolDefinition(name="look")
CLIENTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "all that governs": {
        "policy": Pipeline([]), "limits": Limits([Limit(requests=9)]), "events": EventBus(),
        "budgets": [Budget(tokens=9)], "options": AdapterOptions(temperature=0), "router": Router(),
        "providers": {"anthropic": {"api_key": "none"}},
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("tools", [[], [TOOL], (TOOL,), iter([TOOL]), lambda context: [TOOL]])
def test_a_session_with_tools_alone_has_the_settings_of_its_client(settings: dict[str, Any], tools: Any) -> None:
    """They are those of a session that names all of them."""
    client = Client(**settings)
    tools = tools if callable(tools) else list(tools)
    quick = SessionConfig.from_settings({"client": client, "store": None, "tools": tools})
    assert quick == SessionConfig(**client.config.session_settings({"tools": tools}), client=client.config)
    assert quick.tools == (tools if callable(tools) else tuple(tools))
    assert SessionConfig.from_settings({"client": client}).tools == ()


@pytest.mark.parametrize("tools", [None, 7, TOOL, "look", {"look": TOOL}])
def test_what_is_no_list_of_tools_is_refused(tools: Any) -> None:
    """The error is the same with a client and without one."""
    words = set()
    for client in (None, Client()):
        with pytest.raises(ConfigurationError) as raised:
            SessionConfig.from_settings({"client": client, "tools": tools})
        words.add(str(raised.value))
    assert len(words) == 1


@pytest.mark.parametrize("setting", ["extra", "headers"])
def test_extra_and_headers_of_an_unknown_provider_are_refused(setting: str) -> None:
    """They would reach nobody."""
    session = Session("openai:gpt-5.4", providers={"openai": {"api_key": "k"}})
    with pytest.raises(ConfigurationError, match=f"unknown provider in {setting}: 'opnai'; did you mean 'openai'"):
        session.ask("Hi", **{setting: {"opnai": {"x": "1"}}})
