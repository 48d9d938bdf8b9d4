"""Credentials that are fetched hold on every road: one fetch, one renewal after a refusal, inside one attempt."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, AsyncClient, Budget, Client, DragomanError, Session
from dragoman.adapter import registry
from dragoman.adapter.errors import AuthenticationError, CredentialsError, RequestTimeoutError
from dragoman.adapter.registry import get_adapter
from dragoman.bulk.requester import ModelConfig
from dragoman.credentials import Authorization
from dragoman.credentials.functions import from_variable
from dragoman.credentials.given import GivenCredentials
from dragoman.transport import HttpExchange
from dragoman_adapters.compatible import register_endpoint
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving
from tests.unit.client.test_missing_credentials import OFFERED, WAYS, NotOfferedError
from tests.unit.credentials.servers import CHAT_REPLY, Answer, Received, Server, accepting

MODEL = "openai:gpt-4o-mini"
CHAT = "openai-chat:gpt-4o-mini"


class Keys:
    """A function that returns another key each time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return f"rotating-key-{self.calls}"


def bearer(received: Received) -> str:
    return received.headers.get("authorization", "")


@pytest.fixture
def provider() -> Iterator[Server]:
    """Accepts the second key and later ones."""
    with Server(accepting(CHAT_REPLY, lambda received: bearer(received) != "Bearer rotating-key-1")) as server:
        yield server


@pytest.mark.parametrize("setting", ["api_key", "credentials"])
@pytest.mark.parametrize("way", WAYS)
def test_a_function_on_every_road(way: str, setting: str, provider: Server) -> None:
    """A refused key is renewed once, and the request is sent again at once with the new one."""
    if way in OFFERED and OFFERED[way](get_adapter(MODEL)) is None:
        pytest.skip("the provider has no such service")
    keys = Keys()
    model = "openai:text-embedding-3-small" if "embed" in way else MODEL
    try:
        WAYS[way](model, {"openai": {"base_url": provider.url, setting: keys, "max_retries": 0}})
    except NotOfferedError:
        pytest.skip("the provider has no such service")
    except DragomanError:  # the server's reply is not one of every road; what counts is what it received
        if not provider.requests:
            raise
    assert keys.calls == 2
    assert [bearer(each) for each in provider.requests[:2]] == ["Bearer rotating-key-1", "Bearer rotating-key-2"]
    assert {bearer(each) for each in provider.requests[1:]} == {"Bearer rotating-key-2"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_the_gateway_too(path: str, provider: Server) -> None:
    keys = Keys()
    client = AsyncClient(providers={"openai-chat": {"base_url": provider.url, "api_key": keys}})
    app = create_app(GatewaySettings(models={"m": CHAT}), client=client)
    question = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100}
    with serving(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        answers = [http.post(path, json=question) for _ in range(20)]
    assert {each.status_code for each in answers} == {200}
    assert keys.calls == 2


def test_the_attempt_reserves_once(provider: Server) -> None:
    """The refused request is not an attempt of its own: it is neither counted nor billed. Both exchanges are shown."""
    exchanges: list[HttpExchange] = []
    settings = {"openai-chat": {"base_url": provider.url, "api_key": Keys()}}
    with Client(providers=settings, budgets=[Budget(usd=Decimal("0.05"))], on_exchange=exchanges.append) as client:
        reply = client.ask(CHAT, "Hi")
        assert [each.number for each in reply.response.attempts] == [1]
        assert client.cost.usd == reply.cost.usd
    assert [(each.attempt, each.status) for each in exchanges] == [(1, 401), (1, 200)]
    assert "rotating-key" not in "".join(str(each.request_headers) for each in exchanges)


def test_a_key_that_stays_refused_is_renewed_once() -> None:
    """The second refusal is the error of the request, and later requests do not ask for a third key."""
    keys = Keys()
    with Server(accepting(CHAT_REPLY, lambda _: False)) as server:
        with Client(providers={"openai-chat": {"base_url": server.url, "api_key": keys}}) as client:
            for _ in range(3):
                with pytest.raises(AuthenticationError):
                    client.ask(CHAT, "Hi")
        assert len(server.requests) == 2 + 1 + 1
    assert keys.calls == 2


def test_sync_and_async_clients_of_one_function_share_it(provider: Server) -> None:
    """So do threads: one fetch and one renewal serve all."""
    keys = Keys()
    with Client(providers={"openai-chat": {"base_url": provider.url, "api_key": keys}}) as client:
        threads = [threading.Thread(target=lambda: client.ask(CHAT, "Hi")) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert keys.calls == 2

    async def main() -> None:
        async with AsyncClient(providers={"openai-chat": {"base_url": provider.url, "api_key": keys}}) as client:
            await asyncio.gather(*(client.ask(CHAT, "Hi") for _ in range(50)))

    asyncio.run(main())
    assert keys.calls == 3


def test_a_session_takes_a_function(provider: Server) -> None:
    """As its own argument, as it takes a key."""
    with Session(CHAT, api_key=Keys(), base_url=provider.url) as session:
        assert session.ask("Hi").text == "Yes."
        assert session.ask("And now?").text == "Yes."
    assert [bearer(each)[-1] for each in provider.requests] == ["1", "2", "2"]


def test_a_renewal_that_fails_was_not_sent() -> None:
    """The refused request cost nothing, and the error is that of the function."""
    calls = [0]

    def key() -> str:
        calls[0] += 1
        if calls[0] > 1:
            raise ValueError("canary-of-the-vault")
        return "rotating-key-1"

    with Server(accepting(CHAT_REPLY, lambda _: False)) as server:
        settings = {"openai-chat": {"base_url": server.url, "api_key": key}}
        failing = pytest.raises(CredentialsError, match=r"the function .*key: ValueError in key, line \d+")
        with Client(providers=settings) as client, failing as caught:
            client.ask(CHAT, "Hi")
        assert len(server.requests) == 1
    assert caught.value.sent is False
    assert "canary" not in str(caught.value)


def test_an_endpoint_of_ones_own_may_be_signed(provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table names the service of an endpoint, such as a model behind SageMaker."""
    provider.rule = lambda _: Answer(200, CHAT_REPLY)
    monkeypatch.setattr(registry, "_registered", {})
    table = {"like": "vllm", "base_url": provider.url, "credentials": "aws", "scope": "sagemaker"}
    register_endpoint("house-model", table)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/bPxRfiCYEXAMPLEKEY")
    with Client(providers={"house-model": {"region": "eu-central-1"}}) as client:
        assert client.ask("house-model:m", "Hi").text == "Yes."
    assert "/eu-central-1/sagemaker/aws4_request" in bearer(provider.requests[-1])


def test_an_async_function_and_a_source_of_ones_own(provider: Server) -> None:
    """An async function serves sync calls too. A source returns headers, and is told that they were refused."""

    async def key() -> str:
        await asyncio.sleep(0)
        return "rotating-key-2"

    class Source:
        def __init__(self) -> None:
            self.renews: list[bool] = []

        def authorize(self, *, renew: bool) -> Authorization:
            self.renews.append(renew)
            return Authorization(headers={"Authorization": f"Bearer rotating-key-{len(self.renews)}", "x-team": "a"})

    with Client(providers={"openai-chat": {"base_url": provider.url, "api_key": key}}) as client:
        assert client.ask(CHAT, "Hi").text == "Yes."
    source = Source()
    with Client(providers={"openai-chat": {"base_url": provider.url, "credentials": source}}) as client:
        assert client.ask(CHAT, "Hi").text == "Yes."
    assert source.renews == [False, True]
    assert provider.requests[-1].headers["x-team"] == "a"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_that_blocks_ends_at_the_deadline(asynchronous: bool, provider: Server) -> None:
    """The time limit of the call holds, and nothing is sent."""
    gate = threading.Event()

    def key() -> str:
        gate.wait(30)
        return "late"

    settings = {"openai-chat": {"base_url": provider.url, "api_key": key, "timeout": 0.3, "max_retries": 0}}

    async def ask() -> None:
        async with AsyncClient(providers=settings) as client:
            await client.ask(CHAT, "Hi")

    late = pytest.raises(RequestTimeoutError, match="no credentials in time")
    with Client(providers=settings) as client, late as caught:
        asyncio.run(ask()) if asynchronous else client.ask(CHAT, "Hi")
    gate.set()
    assert caught.value.sent is False
    assert not provider.requests


def test_headers_of_the_settings(provider: Server) -> None:
    """They are sent with each request; those of the request itself win, and errors do not show a secret one."""
    headers = {"X-Team": "search", "X-Corp-Token": "canary-of-the-proxy-41"}
    settings: dict[str, Any] = {"base_url": provider.url, "api_key": "rotating-key-2", "headers": headers}
    with Client(providers={"openai-chat": settings}) as client:
        assert client.ask(CHAT, "Hi").text == "Yes."
    assert provider.requests[-1].headers["x-team"] == "search"
    assert provider.requests[-1].headers["x-corp-token"] == "canary-of-the-proxy-41"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"api_key": "k", "credentials": Keys()}, "both api_key and credentials are given"),
    "a class": ({"api_key": Keys}, "must be a text or a function"),
    "bytes": ({"credentials": b"key"}, "must be a function that returns a key"),
    "a header of the transport": ({"headers": {"host": "elsewhere"}}, "belongs to the transport"),
    "a header with a line end": ({"headers": {"x-a": "b\r\nc: d"}}, "line ends"),
    "headers as a text": ({"headers": "x-a: b"}, "must be a mapping"),
    "a region with a path": ({"region": "eu/../x"}, "is not the name of a region"),
    "an empty profile": ({"profile": ""}, "must be a text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_are_refused(case: str) -> None:
    settings, message = REFUSED[case]
    with pytest.raises(DragomanError, match=message), Client(providers={"openai-chat": settings}) as client:
        client.ask(CHAT, "Hi")


def test_a_setting_of_another_cloud_is_refused() -> None:
    refused = pytest.raises(DragomanError, match="openai-chat has no setting profile")
    with Client(providers={"openai-chat": {"profile": "work"}}) as client, refused:
        client.ask(CHAT, "Hi")


def test_the_latest_of_key_and_credentials_counts(provider: Server) -> None:
    """A session's key takes the place of the client's credentials, and the other way round."""
    keys = Keys()
    with Client(providers={"openai-chat": {"base_url": provider.url, "api_key": keys}}) as client:
        changed = client.with_(providers={"openai-chat": {"api_key": "rotating-key-9"}})
        assert changed.ask(CHAT, "Hi").text == "Yes."
        assert keys.calls == 0
        again = changed.with_(providers={"openai-chat": {"credentials": keys}})
        assert again.ask(CHAT, "Hi").text == "Yes."
    assert keys.calls == 2


BAD_RESULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: b"canary-in-bytes-8841", "returned a value of the class bytes"),
    "nothing": (lambda: None, "returned a value of the class NoneType"),
    "an empty text": (lambda: "", "is empty or holds characters"),
    "a line end": (lambda: "canary-in-bytes-8841\nx", "is empty or holds characters"),
    "64 KB": (lambda: "canary-in-bytes-8841" * 3300, "a key of 66,000 characters"),
}


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_what_a_function_must_not_return(case: str, provider: Server) -> None:
    """The error names the function and the mistake, and never shows what was returned."""
    function, message = BAD_RESULTS[case]
    settings = {"base_url": provider.url, "api_key": function}
    refused = pytest.raises(AuthenticationError, match=message)
    with Client(providers={"openai-chat": settings}) as client, refused as caught:
        client.ask(CHAT, "Hi")
    assert "the function" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.sent is False
    assert not provider.requests


def test_the_workers_of_a_cluster_get_the_source() -> None:
    """A function goes to them by its name, a place of the configuration file as it is, and a cache stays here."""
    import pickle

    config = ModelConfig(CHAT, AdapterOptions(), {"credentials": GivenCredentials(partial(from_variable, "HOME"))})
    copied = pickle.loads(pickle.dumps(config))
    assert copied.settings["credentials"].for_scope("").name == "the environment variable HOME"
    of_function = pickle.loads(pickle.dumps(GivenCredentials(key_of_a_module)))
    authorization = of_function.for_scope("").get(10)
    assert authorization.key is not None
    assert authorization.key.reveal() == "key-of-a-module"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(authorization)


def key_of_a_module() -> str:
    return "key-of-a-module"
