"""Clients: their settings hold for all their sessions, and their connections are shared."""

import asyncio
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, AsyncSession, Budget, Client, Session, Store, ask, set_default_client
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError
from dragoman.events import EventBus
from dragoman.policy import Pipeline, Step, hook
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman.transport.http import HttpTransport
from tests.unit.session.drivers import ANTHROPIC
from tests.unit.session.handwritten_replies import handwritten_anthropic

REPLY = handwritten_anthropic("Ok.")


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    import json

    with FaultyServer(json_reply(json.loads(REPLY.body))) as running:
        yield running


def providers(server: FaultyServer, **settings: Any) -> dict[str, Any]:
    return {"anthropic": {"base_url": server.url, "api_key": "none", **settings}}


@pytest.fixture(autouse=True)
def _no_default() -> Iterator[None]:
    yield
    set_default_client(None)


def test_a_thousand_sessions_share_one_connection(server: FaultyServer) -> None:
    """Sessions in a row, with a client or without, open one TCP connection."""
    client = Client(providers=providers(server))
    for _ in range(20):
        with client.session(ANTHROPIC) as session:
            session.ask("Hi")
        with Session(ANTHROPIC, providers=providers(server)) as session:
            session.ask("Hi")
        assert ask(ANTHROPIC, "Hi", providers=providers(server)).text == "Ok."
    assert {request.connection for request in server.requests} == {0}


def test_async_sessions_of_a_loop_share_one_connection(server: FaultyServer) -> None:
    """The same, for the sessions of one event loop; another loop opens its own, and none stays open."""

    async def main() -> None:
        async with AsyncClient(providers=providers(server)) as client:
            for _ in range(10):
                async with client.session(ANTHROPIC) as session:
                    await session.ask("Hi")
            async with AsyncSession(ANTHROPIC, providers=providers(server)) as session:
                await session.ask("Hi")

    for loops in (1, 2):
        asyncio.run(main())
        assert {request.connection for request in server.requests} == set(range(loops))
        assert server.wait_until_closed() == 0


def test_the_settings_of_a_client_hold_in_its_sessions(server: FaultyServer, tmp_path: Path) -> None:
    """Store, options, events and budgets are the client's; each can be seen from outside."""
    store, bus, seen = Store(f"sqlite:///{tmp_path}/chats.db"), EventBus(), []
    bus.subscribe(lambda event: seen.append(event.type))
    client = Client(providers=providers(server), store=store, events=bus, options=AdapterOptions(max_output_tokens=77))
    with client.session(ANTHROPIC) as session:
        session.ask("Hi")
    assert b'"max_tokens":77' in server.requests[0].body
    assert [record.id for record in store.list().sessions] == [session.session_id]
    assert client.resume(session.session_id).messages == session.messages
    assert seen
    store.close()


def test_a_list_of_plugins_and_a_url_are_enough(server: FaultyServer, tmp_path: Path) -> None:
    """They become a pipeline and a store; the client closes the store that it has opened."""

    heard: list[str] = []

    @hook("cmf.llm_input")
    def listen(step: Step) -> None:
        heard.append("listen")

    url = f"sqlite:///{tmp_path}/chats.db"
    with Client(providers=providers(server), policy=[listen], store=url) as client:
        session = client.session(ANTHROPIC)
        session.ask("Hi")
    assert heard
    with Store(url) as store:
        assert [record.id for record in store.list().sessions] == [session.session_id]


def test_budgets_of_client_and_session_both_hold(server: FaultyServer) -> None:
    """A session cannot spend more than its client may, nor more than itself."""
    small, large = Budget(usd=Decimal("0.000001")), Budget(usd=10)
    for of_client, of_session in ((small, large), (large, small)):
        client = Client(providers=providers(server), budgets=[of_client])
        with pytest.raises(BudgetExceededError):
            client.ask(ANTHROPIC, "Hi", budgets=[of_session])
    assert server.requests == []


def test_a_session_cannot_leave_the_policy_of_its_client(server: FaultyServer) -> None:
    """Policy, limits, events and store of a client are not replaced; the error says what to do. The same one may be
    passed again."""
    policy = Pipeline([])
    client = Client(providers=providers(server), policy=policy)
    with pytest.raises(ConfigurationError, match=r"policy of its own.*client\.with_\(policy=\.\.\.\)"):
        client.session(ANTHROPIC, policy=Pipeline([]))
    assert client.session(ANTHROPIC, policy=policy).config.policy is policy
    set_default_client(client)
    with pytest.raises(ConfigurationError, match="policy of its own"):
        Session(ANTHROPIC, policy=Pipeline([]))


def test_a_derived_client_shares_the_connections(server: FaultyServer) -> None:
    """`with_` replaces some settings and keeps the others; settings of providers are merged."""
    policy = Pipeline([])
    client = Client(providers=providers(server), options=AdapterOptions(max_output_tokens=5))
    derived = client.with_(policy=policy, providers={"anthropic": {"max_retries": 0}})
    assert (derived.config.policy, client.config.policy) == (policy, None)
    assert derived.config.options == client.config.options
    for each in (client, derived):
        assert each.ask(ANTHROPIC, "Hi").text == "Ok."
    assert {request.connection for request in server.requests} == {0}
    derived.close()
    assert client.ask(ANTHROPIC, "Hi").text == "Ok."


def test_the_default_client_governs_what_names_none(server: FaultyServer) -> None:
    """Bare sessions and `ask` take its settings; without it nothing is set."""
    assert Session(ANTHROPIC).config.client is None
    client = Client(providers=providers(server), options=AdapterOptions(max_output_tokens=33))
    set_default_client(client)
    assert ask(ANTHROPIC, "Hi").text == "Ok."
    assert b'"max_tokens":33' in server.requests[0].body
    other = Client(providers=providers(server), options=AdapterOptions(max_output_tokens=44))
    assert ask(ANTHROPIC, "Hi", client=other).text == "Ok."
    assert b'"max_tokens":44' in server.requests[1].body


def test_a_closed_client_is_named(server: FaultyServer) -> None:
    """Neither it nor its sessions can ask; what was said stays readable, and nothing is sent."""
    with Client(providers=providers(server)) as client:
        session = client.session(ANTHROPIC)
        session.ask("Hi")
    assert server.wait_until_closed() == 0
    for use in (lambda: session.ask("Again"), lambda: client.session(ANTHROPIC), lambda: client.with_(prices=None)):
        with pytest.raises(ConfigurationError, match="the client is closed"):
            use()
    assert (len(session.messages), len(server.requests)) == (2, 1)
    with pytest.raises(ConfigurationError, match="the client is closed"):
        set_default_client(client)


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"polcy": None}, "unknown setting of a client: 'polcy'; did you mean 'policy'"),
        ({"policy": 3}, "policy must be of the class Pipeline"),
        ({"providers": {"anthropic": {"timeout": "x"}}}, r"\['timeout'\] must be a number of seconds"),
        ({"providers": {"anthropic": {"base_url": 5}}}, r"\['base_url'\] must be a URL"),
        ({"providers": {"anthropic": {"base_url": "localhost:8080/v1"}}}, "write http://localhost:8080/v1"),
        ({"providers": {"anthropic": {"base_url": "api.example.com"}}}, "write https://api.example.com"),
        ({"providers": {"anthropic": {"max_connections": 0}}}, r"\['max_connections'\] must be a whole number"),
        ({"providers": {"anthropic": {"body_cap": -1}}}, r"\['body_cap'\] must be a whole number"),
        ({"providers": {"anthropic": {"max_retries": True}}}, r"\['max_retries'\] must be a whole number"),
        (
            {"providers": {"anthropic": {"engine": "httpxx"}}},
            r"\['engine'\] is none of the engines; did you mean 'httpx",
        ),
        (
            {"providers": {"anthropic": {"engine": 5}}},
            r"\['engine'\] must be one of aiohttp, httpx, httpx2, not .* int",
        ),
        ({"providers": {"anthropic": {"proxy": "secret"}}}, r"\['proxy'\] must be an address such as http://host:3128"),
        ({"providers": {"anthropic": {"proxy": "http://me:secret@host:x"}}}, r"\['proxy'\] must be an address"),
        ({"providers": {"anthropic": {"proxy": "http://"}}}, r"\['proxy'\] must be an address"),
        ({"providers": {"anthropic": {"proxy": 5}}}, r"\['proxy'\] must be an address"),
        ({"providers": {"anthropic": {"verify": False}}}, r"\['verify'\] must be an ssl.SSLContext, .* class bool"),
        ({"providers": {"anthropic": {"verify": "secret.pem"}}}, r"\['verify'\] must be an ssl.SSLContext"),
        ({"providers": {"anthropic": {"base_url": "ftp://secret"}}}, r"\['base_url'\] is not of the form https://host"),
        (
            {"providers": {"anthropic": {"base_url": "http://me:secret@x"}}},
            r"\['base_url'\] holds a user name, a query",
        ),
        ({"providers": {"anthropic": {"base_url": "http://x:99999"}}}, r"\['base_url'\] has a port that is not"),
        ({"providers": {"anthropic": {"api_key": ""}}}, r"\['api_key'\] is empty or holds characters"),
        ({"providers": {"anthropic": {"api_key": "secret\nkey"}}}, r"\['api_key'\] is empty or holds characters"),
        ({"providers": {"anthropic": {"client": 5}}}, r"\['client'\] must be a client such as httpx.Client\(...\)"),
        ({"providers": {"anthropic": {"client": httpx.Client}}}, r"\['client'\] must be a client .* the class type"),
        ({"budgets": [Budget(usd=1), 5]}, r"budgets\[1\] must be a Budget, such as Budget\(usd=1\), not .* class int"),
        ({"providers": {"anthropic": "sk-secret"}}, "must be a mapping of settings"),
        ({"providers": ["anthropic"]}, "providers must be a mapping"),
        ({"store": 5}, "store must be a Store"),
        ({"store": "chats.db"}, "sqlite:///"),
        ({"policy": ["nothing"]}, "plugin"),
    ],
)
def test_wrong_settings_are_refused_where_they_are_written(settings: dict[str, Any], hint: str) -> None:
    """Wrong settings are refused where they are written for clients and for sessions alike, with the name of the
    setting and without its value.
    """
    with pytest.raises(ConfigurationError, match=hint) as found:
        Client(**settings)
    assert "secret" not in str(found.value)
    if settings.keys() & {"providers", "budgets"}:
        with pytest.raises(ConfigurationError, match=hint):
            Session(ANTHROPIC, **settings)


@pytest.mark.parametrize("key", [123456789012, 123456789012.5, b"sk-123456789012", ["123456789012"]])
def test_no_error_shows_a_key(key: Any) -> None:
    """No error shows a key, also if it is not text. A number is shown only where a number is expected."""
    makers: list[Callable[[dict[str, Any]], object]] = [
        lambda given: Client(providers={"anthropic": given}),
        lambda given: Session(ANTHROPIC, providers={"anthropic": given}),
        lambda given: HttpTransport(**given),
    ]
    for name in ("api_key", "base_url", "proxy", "engine"):
        for make in makers:
            with pytest.raises(ConfigurationError, match=name) as found:
                make({name: key})
            assert "123456789012" not in str(found.value)


def test_a_key_and_an_address_can_be_given_alone(server: FaultyServer) -> None:
    """`api_key` and `base_url` belong to the provider of the session's model, beside other settings of it."""
    reply = ask(ANTHROPIC, "Hi", api_key="other", base_url=server.url, providers={"anthropic": {"max_retries": 0}})
    assert reply.text == "Ok."
    assert server.requests[0].headers["x-api-key"] == "other"
