"""Claude on Vertex AI, on Bedrock's endpoint for the Messages API and in Foundry; OpenAI's models on Bedrock."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Client, RequestContext, Session
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.errors import UnsupportedToolError
from dragoman.events import MessageComplete
from dragoman.server_tools import WebFetch, WebSearch
from dragoman_gateway import GatewaySettings, create_app
from tests.exchanges import load_or_skip
from tests.gateway.serving import serving
from tests.unit.credentials.servers import MESSAGES_REPLY, Answer, Received, Server
from tests.unit.credentials.test_aws import SECRET, signed_by
from tests.unit.credentials.test_azure import Token
from tests.unit.credentials.test_google import TokenServer, service_account, write

VERTEX = "anthropic-vertex:claude-sonnet-4-5@20250929"
BEDROCK = "anthropic-bedrock:anthropic.claude-sonnet-4-5"
FOUNDRY = "anthropic-foundry:claude-sonnet-4-5"
OPENAI = "bedrock-openai:openai.gpt-oss-120b"
RESPONSES_REPLY = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "openai.gpt-oss-120b",
    "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
    ],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
}  # fmt: skip


@pytest.fixture
def cloud() -> Iterator[Server]:
    def answer(received: Received) -> Answer:
        if "count" in received.path:
            return Answer(200, {"input_tokens": 7})
        return Answer(200, RESPONSES_REPLY if received.path.endswith("/responses") else MESSAGES_REPLY)

    with Server(answer) as server:
        yield server


def settings_of(model: str, cloud: Server, tmp_path: Path, tokens: TokenServer) -> dict[str, Any]:
    """What each cloud wants to know of the caller."""
    if model == VERTEX:
        return {"base_url": cloud.url, "credentials_file": write(tmp_path / "key.json", service_account(tokens))}
    if model == FOUNDRY:

        class Entra:
            def get_token(self, *_: str) -> Token:
                return Token("canary-entra-token")

        return {"base_url": cloud.url, "credentials": Entra()}
    return {"base_url": cloud.url, "region": "eu-central-1"}


def check_caller(model: str, received: Received) -> None:
    authorization = received.headers["authorization"]
    if model == VERTEX:
        assert authorization == "Bearer ya29.canary-token-1"
    elif model == FOUNDRY:
        assert authorization == "Bearer canary-entra-token"
        assert "x-api-key" not in received.headers
    else:
        assert signed_by(received) == ("AKIAVARIABLE", "eu-central-1", "bedrock-mantle")


@pytest.mark.parametrize("model", [VERTEX, BEDROCK, FOUNDRY, OPENAI])
def test_each_cloud_knows_the_caller(
    model: str, cloud: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cloud knows the caller: sync, async, and from an agent of Anthropic's through a gateway. The body is that of
    the cloud.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    provider = model.partition(":")[0]
    with TokenServer() as tokens:
        settings = {provider: settings_of(model, cloud, tmp_path, tokens)}
        with Client(providers=settings) as client:
            assert client.ask(model, "Hi").text == "Yes."

        async def main() -> None:
            async with AsyncClient(providers=settings) as client:
                assert (await client.ask(model, "Hi")).text == "Yes."

        asyncio.run(main())
        app = create_app(GatewaySettings(models={"m": model}), client=AsyncClient(providers=settings))
        question = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
        with serving(app) as url:
            reply = httpx.post(f"{url}/v1/messages", json=question, timeout=60)
        assert reply.json()["content"][0]["text"] == "Yes.", reply.text
    assert len(cloud.requests) == 3
    for received in cloud.requests:
        check_caller(model, received)
        body = json.loads(received.body)
        if model == VERTEX:
            assert received.path == "/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict"
            assert body["anthropic_version"] == "2026-10-21"
            assert "model" not in body
            assert "anthropic-version" not in received.headers
        elif model != OPENAI:
            assert received.path == "/v1/messages"
            assert body["model"] == model.partition(":")[2]
            assert received.headers["anthropic-version"]


@pytest.mark.parametrize("model", [VERTEX, BEDROCK, FOUNDRY])
def test_tokens_are_counted_there(model: str, cloud: Server) -> None:
    """Files and lists of models are Anthropic's own alone."""
    provider, _, name = model.partition(":")
    settings = {provider: {"base_url": cloud.url, "api_key": "k"}}
    with Client(providers=settings) as client, client.services(model) as services:
        assert services.offers == {"count_tokens"}
        assert services.count_tokens("Hi") == 7
    assert json.loads(cloud.requests[0].body)["model"] == name


def test_the_addresses() -> None:
    from dragoman.credentials.target import TargetFinder

    environ = {
        "AWS_REGION": "eu-central-1", "GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "us-east5",
        "ANTHROPIC_FOUNDRY_RESOURCE": "mine", "AWS_BEARER_TOKEN_BEDROCK": "k", "GOOGLE_VERTEX_TOKEN": "k",
        "ANTHROPIC_FOUNDRY_API_KEY": "k",
    }  # fmt: skip
    found = {each: TargetFinder(environ=environ).target(get_adapter(each)).base_url
             for each in (VERTEX, BEDROCK, FOUNDRY, OPENAI)}  # fmt: skip
    assert found == {
        VERTEX: "https://us-east5-aiplatform.googleapis.com/v1/projects/p-1/locations/us-east5",
        BEDROCK: "https://bedrock-mantle.eu-central-1.api.aws/anthropic",
        FOUNDRY: "https://mine.services.ai.azure.com/anthropic",
        OPENAI: "https://bedrock-mantle.eu-central-1.api.aws/openai/v1",
    }


def test_facts_and_prices_are_those_of_the_model() -> None:
    models = {VERTEX, BEDROCK, FOUNDRY, "anthropic-bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0"}
    own = get_adapter("anthropic:claude-sonnet-4-5").capabilities
    for model in models:
        capabilities = get_adapter(model).capabilities
        assert capabilities.max_output_tokens == own.max_output_tokens, model
        assert not capabilities.supports_batch_api


@pytest.mark.parametrize(
    ("model", "missing"), [(VERTEX, {"web_fetch"}), (BEDROCK, {"web_search", "web_fetch"}), (FOUNDRY, set())]
)
def test_tools_that_a_cloud_lacks_are_refused(model: str, missing: set[str], cloud: Server) -> None:
    """Before anything is sent, and by name."""
    provider, tools = model.partition(":")[0], {"web_search": WebSearch(), "web_fetch": WebFetch()}
    for name, tool in tools.items():
        with Session(model, tools=[tool], providers={provider: {"base_url": cloud.url, "api_key": "k"}}) as session:
            if name in missing:
                with pytest.raises(UnsupportedToolError, match="has the tools that the caller runs"):
                    session.ask("Hi")
            else:
                session.ask("Hi")
    assert len(cloud.requests) == 2 - len(missing)


@pytest.mark.exchanges
def test_recorded_traffic_of_vertex() -> None:
    """Its requests are read and sent to the same place, and its replies are read, whole and streamed."""
    exchanges = load_or_skip("anthropic-vertex")
    for exchange in exchanges:
        adapter = get_adapter(f"anthropic-vertex:{exchange.model}")
        context = RequestContext.for_model(str(adapter.model_id))
        messages, tools, options = adapter.from_wire_request(exchange.request, context)
        wire = adapter.to_wire(messages, tools, replace(options, stream=exchange.streamed))
        assert exchange.url_path.endswith(wire.path)
        assert json.loads(wire.body)["anthropic_version"] == exchange.request["anthropic_version"]
        if exchange.streamed:
            *_, last = adapter.iter_stream([exchange.body], context)
            assert isinstance(last, MessageComplete)
            reply = last.message
        else:
            reply = adapter.from_wire_response(WireResponse(exchange.status, exchange.body, exchange.headers), context)
        assert reply.content
        assert reply.usage is not None
    assert len(exchanges) == 7
