"""What a client's SDK sees when a provider refuses: the status and the wait that it expects, and nothing inside."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from google import genai
from google.genai import errors, types

from dragoman import AsyncClient
from dragoman.testing.faults.server import HttpReply, ReceivedRequest, json_reply
from dragoman.transport.retry import RetryPolicy
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.running.generation import Gateway
from tests.gateway.app.test_late_errors import BODIES, MODELS, OTHER, PATHS
from tests.gateway.serving import serving
from tests.gateway.upstream import KEY, gateway_before

WAYS = [(wire, behind) for wire in PATHS for behind in (wire, OTHER[wire])]
WORDS = "no, says http://10.1.2.3:8080/internal"


def refusal(behind: str, status: int, headers: dict[str, str]) -> Callable[[ReceivedRequest], HttpReply]:
    """Return a provider that refuses each request."""
    kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
             429: "rate_limit_error", 529: "overloaded_error"}  # fmt: skip
    body: dict[str, Any] = {"error": {"message": WORDS, "type": kinds[status], "code": status, "status": "X"}}
    if behind == "anthropic":
        body |= {"type": "error"}
    elif behind == "ollama":
        body = {"error": WORDS}
    reply = json_reply(body, status)
    reply.headers.update(headers)
    return lambda _: reply


def ask(wire: str, url: str, opened: ExitStack) -> tuple[int, dict[str, str], str]:
    """Ask with the official client of the wire, without retries, and return the status, the headers and the text of the
    error that it raises."""
    plain = {name: value for name, value in BODIES[wire].items() if name != "stream"}
    if wire == "anthropic":
        messages = opened.enter_context(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)).messages
        with pytest.raises(anthropic.APIStatusError) as of_messages:
            messages.create(**plain)
        return of_messages.value.status_code, dict(of_messages.value.response.headers), str(of_messages.value)
    if wire in ("openai", "openai-chat"):
        client = opened.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
        create: Any = client.responses.create if wire == "openai" else client.chat.completions.create
        with pytest.raises(openai.APIStatusError) as of_openai:
            create(**plain)
        return of_openai.value.status_code, dict(of_openai.value.response.headers), str(of_openai.value)
    if wire == "google":
        models = opened.enter_context(genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))).models
        with pytest.raises(errors.APIError) as of_google:
            models.generate_content(model="house", contents="Hi")
        response: Any = of_google.value.response
        return of_google.value.code, dict(response.headers), json.dumps(of_google.value.details)
    chat = opened.enter_context(ollama.Client(host=url))
    with pytest.raises(ollama.ResponseError) as of_ollama:
        chat.chat(**plain)
    return of_ollama.value.status_code, {}, of_ollama.value.error


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_a_refusal_of_the_gateway_s_own_key_is_not_the_client_s(
    wire: str, behind: str, status: int, opened: ExitStack
) -> None:
    """A client that gets 401 asks its user for another key. This one's is right: it is a 502 that names the provider,
    and no SDK asks again."""
    with gateway_before(refusal(behind, status, {}), models={"house": MODELS[behind]}) as (url, server):
        seen, headers, text = ask(wire, url, opened)
    assert seen == 502
    assert f"the provider {behind} refused the key of this gateway" in text
    assert wire == "ollama" or headers["x-should-retry"] == "false"
    assert not [leak for leak in (KEY, "10.1.2.3", "127.0.0.1") if leak in text]
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "wait"), [(400, None), (429, "1"), (429, "3"), (429, "40"), (529, "2")])
@pytest.mark.parametrize(("wire", "behind"), WAYS)
def test_a_refusal_has_the_status_and_the_wait_of_the_provider(
    wire: str, behind: str, status: int, wait: str | None, opened: ExitStack
) -> None:
    """On its own wire the same status; on another one, that with which the client's SDK does the same."""
    headers = {} if wait is None else {"retry-after": wait}
    with gateway_before(refusal(behind, status, headers), models={"house": MODELS[behind]}) as (url, server):
        seen, got, _ = ask(wire, url, opened)
    alike = {529: {529, 503}}.get(status, {status})
    assert seen in alike
    if wait is not None and wire != "ollama":
        assert got["retry-after"] == wait
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", PATHS)
def test_a_provider_that_cannot_be_reached_has_no_address_in_the_error(wire: str, opened: ExitStack) -> None:
    settings: Any = {wire: {"api_key": KEY, "retry": RetryPolicy(max_retries=0), "base_url": "http://127.0.0.1:1"}}
    app = create_app(GatewaySettings(models={"house": MODELS[wire]}), client=AsyncClient(providers=settings))
    with serving(app) as url:
        status, _, text = ask(wire, url, opened)
    assert status >= 500
    assert f"there is no connection to {wire}" in text
    assert "127.0.0.1" not in text


def test_a_gateway_that_ends_closes_the_connection() -> None:
    """The next request over it would come here again, and not to the replica that takes its place."""
    with gateway_before(refusal("anthropic", 400, {}), models={"house": MODELS["anthropic"]}) as (url, server):
        for gateway in list(Gateway.running):
            gateway.drain()
        reply = httpx.post(url + PATHS["anthropic"], json=BODIES["anthropic"])
    assert (reply.status_code, reply.headers["connection"], reply.headers["retry-after"]) == (503, "close", "2")
    assert server.requests == []
