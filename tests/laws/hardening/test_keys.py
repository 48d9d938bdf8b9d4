"""A key goes to the origin that it was given for: every provider, every source of the address, every redirect."""

from itertools import product
from typing import NamedTuple

import httpx
import pytest

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError, DragomanError, MissingKeyError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.adapter.wire import WireRequest
from dragoman.credentials.target import TargetFinder
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest
from dragoman.transport import HttpTransport, RetryPolicy
from tests.tables import each_row

ADAPTERS: list[Adapter] = [
    kind("any-model") for name in providers() if (kind := adapter_class(name)).transport == "http"
]
STATUSES = (301, 302, 303, 307, 308)
PLACES = {
    "the same origin": "{own}/v1/other",
    "the same path": "{own}/chat",
    "a path alone": "/elsewhere",
    "another port": "{other}/chat",
    "another host": "http://localhost:{other_port}/chat",
    "a host without scheme": "//127.0.0.1:{other_port}/chat",
    "another scheme": "https://127.0.0.1:{own_port}/chat",
    "user info": "http://user@127.0.0.1:{other_port}/chat",
    "the key": "{other}/chat?key={key}",
}
NO_RETRY = RetryPolicy(max_retries=0)
STREAMED = WireRequest("POST", "/chat", b"{}", stream=True)


class Case(NamedTuple):
    adapter: Adapter
    said_by: str
    """Whether the base URL is an argument or an environment variable."""
    place: str
    status: int

    @property
    def key(self) -> str:
        return f"canary-{self.adapter.provider}-{self.status}"


CASES = [
    Case(adapter, said_by, place, STATUSES[number % 5])
    for number, (adapter, said_by, place) in enumerate(product(ADAPTERS, ("argument", "variable"), PLACES))
    if said_by == "argument" or adapter.endpoint.base_url_variable
]


def environ_of(adapter: Adapter, key: str) -> dict[str, str]:
    return {adapter.endpoint.key_variables[0]: key} if adapter.endpoint.key_variables else {}


def call(transport: HttpTransport, adapter: Adapter, request: WireRequest) -> None:
    if not request.stream:
        transport.send(adapter, request)
        return
    with transport.stream(adapter, request) as reply:
        assert list(reply.chunks)


def test_a_redirect_takes_no_key_along() -> None:
    """Over five hundred calls: the intended server receives each once, with its key; no other receives anything."""
    assert len(CASES) >= 500

    def redirect(received: ReceivedRequest) -> HttpReply:
        case = CASES[int(received.headers["x-case"])]
        location = PLACES[case.place].format(
            own=own.url, own_port=own.port, other=other.url, other_port=other.port, key=case.key
        )
        return HttpReply(status=case.status, headers={"location": location})

    with FaultyServer(redirect) as own, FaultyServer(HttpReply(body=b"stolen")) as other:
        with httpx.Client(follow_redirects=True) as client:  # The caller's own client would follow.
            for number, case in enumerate(CASES):
                endpoint, key = case.adapter.endpoint, case.key
                variables = {endpoint.base_url_variable: own.url} if case.said_by == "variable" else {}
                transport = HttpTransport(
                    api_key=None if endpoint.key_variables else key,
                    base_url=own.url if case.said_by == "argument" else None,
                    environ={**environ_of(case.adapter, key), **variables},
                    client=client,
                    retry=NO_RETRY,
                )
                request = WireRequest("POST", "/chat", b"{}", {"x-case": str(number)}, stream=bool(number % 2))
                with pytest.raises(DragomanError) as caught:
                    call(transport, case.adapter, request)
                assert "redirects are not followed" in str(caught.value)
                assert key not in str(caught.value) + repr(caught.value)
        assert other.requests == []
        assert [received.headers["x-case"] for received in own.requests] == [str(n) for n in range(len(CASES))]
        for received, case in zip(own.requests, CASES, strict=True):
            endpoint = case.adapter.endpoint
            assert received.headers[endpoint.key_header.lower()] == endpoint.key_prefix + case.key
            assert received.head.count(case.key.encode()) == 1
            assert received.path == "/chat"


def test_no_service_receives_the_key_of_another() -> None:
    """With every provider's key in the environment, each request has the one of its own endpoint, and goes there."""
    environ = {"AWS_REGION": "us-east-1", "CLOUDFLARE_ACCOUNT_ID": "acc", "SNOWFLAKE_ACCOUNT": "acct"}
    environ |= {"ANTHROPIC_FOUNDRY_RESOURCE": "res", "GOOGLE_CLOUD_PROJECT": "project-1"}
    # What the house knows of an address without a variable.
    known = {"VERTEX_HOST": "aiplatform.googleapis.com", "GOOGLE_CLOUD_LOCATION": "global"}
    for name in (
        "AZURE_OPENAI_ENDPOINT",
        "DATABRICKS_HOST",
        "GPUSTACK_BASE_URL",
        "COMPATIBLE_BASE_URL",
        "TEXT_COMPLETION_BASE_URL",
    ):
        environ[name] = f"https://{name.lower().replace('_', '-')}.test"
    keys = {variable: f"canary/{variable}/" for adapter in ADAPTERS for variable in adapter.endpoint.key_variables}
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, content=b"{}")

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        transport = HttpTransport(environ={**environ, **keys}, client=client)
        for adapter in [*ADAPTERS, *reversed(ADAPTERS)]:
            call(transport, adapter, STREAMED)
            request, endpoint = requests.pop(), adapter.endpoint
            keys_sent = {variable for variable, key in keys.items() if key in repr(list(request.headers.raw))}
            assert keys_sent == set(endpoint.key_variables[:1])
            assert not any(key in str(request.url) for key in keys.values())
            base = environ.get(endpoint.base_url_variable or "") or endpoint.base_url.format_map(environ | known)
            assert str(request.url) == base + "/chat"


def test_settings_of_one_service_are_refused_for_another() -> None:
    """All pairs: a given key or address is never part of a call to a service at another address."""
    pairs = 0
    for first, second in product(ADAPTERS, ADAPTERS):
        if first.endpoint.base_url == second.endpoint.base_url:
            continue
        pairs += 1
        credentials = TargetFinder("canary-key", "https://gateway.test", environ={})
        credentials.target(first)
        with pytest.raises(ConfigurationError, match="is another service"):
            credentials.target(second)
    assert pairs >= 500


@each_row("adapter", ADAPTERS, ids=lambda adapter: adapter.provider)
def test_a_foreign_key_is_no_key(adapter: Adapter) -> None:
    """A provider whose own variables are empty has no key, whatever else is set."""
    own = set(adapter.endpoint.key_variables)
    foreign = {variable: "canary" for other in ADAPTERS for variable in other.endpoint.key_variables} | {"API_KEY": "x"}
    credentials = TargetFinder(environ={name: value for name, value in foreign.items() if name not in own})
    if adapter.endpoint.key_required:
        with pytest.raises(MissingKeyError) as caught:
            credentials.target(adapter)
        assert "canary" not in str(caught.value)
    else:
        variable = "" if adapter.endpoint.base_url else adapter.endpoint.base_url_variable
        assert TargetFinder(environ={variable: "https://own.test"} if variable else {}).target(adapter).key is None
