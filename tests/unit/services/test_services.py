"""Token counts, files and lists of models, sync and async, compared with what the official clients send."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import botocore.session
import openai
import pytest

from dragoman import AsyncClient, Client, Limit, Limits, Message, ToolDefinition
from dragoman.adapter.operations.service_api import MAX_PAGES, read_integer, read_time
from dragoman.blocks import DocumentBlock, ImageBlock
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.errors import (
    ConfigurationError,
    LimitReachedError,
    MalformedReplyError,
    PolicyDeniedError,
    RequestError,
    ServerError,
)
from dragoman.policy import Pipeline
from dragoman.services import ProviderFile, Services
from dragoman.testing.faults.server import FaultyServer, HttpReply, json_reply
from tests.unit.services.handwritten_provider import TOKENS, Provider, running_provider
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RedactingPlugin

KEY = "canary-51f0"
CLAUDE, GEMINI = "anthropic:claude-opus-5-5", "google:gemini-3-pro"
RESPONSES, CHAT = "openai:gpt-5.1", "openai-chat:gpt-5.1"
INTERACTIONS, CONVERSE = "google-interactions:gemini-3-pro", "bedrock:anthropic.claude-opus-4-8"
PIXELS = b"\x00\xff"
BASES = {
    CLAUDE: "",
    RESPONSES: "/openai/v1",
    CHAT: "/openai/v1",
    GEMINI: "",
    "ollama:qwen3": "",
    "groq:m": "/openai/v1",
    "cohere:command-a": "",
    INTERACTIONS: "",
    CONVERSE: "",
}


class Calls:
    """The services of a client, called without await; the async client runs in a loop of its own."""

    def __init__(self, client: type[Client] | type[AsyncClient], **settings: Any) -> None:
        self._client, self._settings = client, settings

    def __call__(self, provider: Provider, model: str, use: Callable[[Any], Any]) -> Any:
        settings = {"base_url": provider.url + BASES[model], "api_key": KEY}
        client: Any = self._client(providers={model.partition(":")[0]: settings}, **self._settings)
        if isinstance(client, Client):
            with client, client.services(model) as services:
                return use(services)

        async def run() -> Any:
            async with client, client.services(model) as services:
                return await use(services)

        return asyncio.run(run())


@pytest.fixture(params=[Client, AsyncClient], ids=["sync", "async"])
def calls(request: pytest.FixtureRequest) -> Calls:
    return Calls(request.param)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as found:
        yield found


def sent(provider: Provider) -> tuple[str, str, Any]:
    """The method, the path and the JSON of the last request."""
    last = provider.requests[-1]
    return last.method, last.path.partition("?")[0], json.loads(last.body)


def test_anthropic_counts_what_its_own_client_counts(provider: Provider, calls: Calls) -> None:
    """The request for a count is that of the official client: no field that only generates."""
    tool = ToolDefinition(name="add", description="Adds.", input_schema={"type": "object", "properties": {}})
    count = calls(provider, CLAUDE, lambda api: api.count_tokens("Hello", system="Be brief.", tools=[tool]))
    assert count == TOKENS
    ours = sent(provider)
    official = anthropic.Anthropic(api_key=KEY, base_url=provider.url)
    official.messages.count_tokens(
        model="claude-opus-5-5",
        system=ours[2]["system"],
        messages=[{"role": "user", "content": ours[2]["messages"][0]["content"]}],
        tools=[{"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}],
    )
    assert ours == sent(provider)


def test_openai_counts_what_its_own_client_counts(provider: Provider, calls: Calls) -> None:
    """Responses have a count of their own; the request has no field that only generates."""
    assert calls(provider, RESPONSES, lambda api: api.count_tokens("Hello", system="Be brief.")) == TOKENS
    method, path, body = sent(provider)
    official = openai.OpenAI(api_key=KEY, base_url=provider.url + "/openai/v1")
    official.responses.input_tokens.count(**body)
    assert (method, path, body) == sent(provider)


def test_google_counts_a_whole_request(provider: Provider, calls: Calls) -> None:
    """The body of generateContent, with the name of its model, stands in that of countTokens."""
    assert calls(provider, GEMINI, lambda api: api.count_tokens("Hello", system="Be brief.")) == TOKENS
    method, path, body = sent(provider)
    assert (method, path) == ("POST", "/v1beta/models/gemini-3-pro:countTokens")
    request = body["generateContentRequest"]
    assert request["model"] == "models/gemini-3-pro"
    assert {"contents", "systemInstruction"} <= request.keys()


@pytest.mark.parametrize("model", [CLAUDE, RESPONSES, CHAT, GEMINI])
def test_a_file_is_stored_and_stands_in_messages(provider: Provider, calls: Calls, model: str, tmp_path: Path) -> None:
    """Bytes, name and type arrive unchanged; the block refers to the file, for its provider alone."""
    letter = "ß" if sys.getfilesystemencoding() == "utf-8" else "s"
    path = tmp_path / f'a "report" {letter}.pdf'
    path.write_bytes(content := bytes(range(256)) * 3)
    file: ProviderFile = calls(provider, model, lambda api: api.upload(path))
    (stored,) = provider.uploads
    assert stored[1:] == ("application/pdf", content)
    assert stored[0].replace("%22", '"') == path.name
    assert (file.size, file.media_type) == (len(content), "application/pdf")
    assert file.created_at is not None
    block = file.block
    assert isinstance(block, DocumentBlock)
    assert (block.source.kind, block.source.provider) == ("file_id", model.partition(":")[0])
    assert block.source.data == (file.reference if model == GEMINI else file.id)


@pytest.mark.parametrize("model", [CLAUDE, RESPONSES])
def test_an_upload_is_that_of_the_official_client(provider: Provider, model: str) -> None:
    """Path and form are those of the official client."""
    Calls(Client)(provider, model, lambda api: api.upload(b"png", name="a.png"))
    ours = provider.requests[-1]
    if model == CLAUDE:
        anthropic.Anthropic(api_key=KEY, base_url=provider.url).beta.files.upload(file=("a.png", b"png", "image/png"))
    else:
        official = openai.OpenAI(api_key=KEY, base_url=provider.url + "/openai/v1")
        official.files.create(file=("a.png", b"png", "image/png"), purpose="user_data")
    theirs = provider.requests[-1]
    assert (ours.method, ours.path) == (theirs.method, theirs.path.removesuffix("?beta=true"))
    assert "anthropic-beta" not in {*ours.headers, *theirs.headers}
    assert (b'name="purpose"' in ours.body) == (b'name="purpose"' in theirs.body)
    assert provider.uploads[-1] == provider.uploads[-2]


@pytest.mark.parametrize("model", [CLAUDE, RESPONSES, GEMINI])
def test_lists_are_read_to_their_last_page(provider: Provider, calls: Calls, model: str) -> None:
    """Files and models of every page are there, in order, once."""
    files = calls(provider, model, lambda api: api.files())
    assert [each.id for each in files] == [f"{'files/' if model == GEMINI else ''}files-{n}" for n in range(1, 7)]
    models = calls(provider, model, lambda api: api.models())
    assert [each.id for each in models] == [f"{model.partition(':')[0]}:models-{n}" for n in range(1, 7)]


def test_endpoints_list_their_models(provider: Provider, calls: Calls) -> None:
    """An endpoint with OpenAI's wire and an Ollama server list models, and offer nothing else."""
    assert [each.id for each in calls(provider, "groq:m", lambda api: api.models())][:1] == ["groq:models-1"]
    (model,) = calls(provider, "ollama:qwen3", lambda api: api.models())
    assert (model.id, str(model.created_at)) == ("ollama:qwen3:8b", "2026-11-01 08:00:00.500000+00:00")
    with pytest.raises(ConfigurationError, match="groq does not offer files here; it offers models"):
        calls(provider, "groq:m", lambda api: api.files())


def test_cohere_and_interactions_list_their_models(provider: Provider, calls: Calls) -> None:
    """An interaction is not counted beforehand."""
    for model in ("cohere:command-a", INTERACTIONS):
        models = calls(provider, model, lambda api: api.models())
        assert [each.id for each in models] == [f"{model.partition(':')[0]}:models-{n}" for n in range(1, 7)]
        assert {each.max_input_tokens for each in models} == {1000}
    with pytest.raises(ConfigurationError, match="google-interactions does not offer count_tokens here"):
        calls(provider, INTERACTIONS, lambda api: api.count_tokens("Hello"))


def test_bedrock_counts_what_it_converses(provider: Provider, calls: Calls) -> None:
    """The fields of Converse that are input, as the service model of the official client has them."""
    tool = ToolDefinition(name="add")
    assert calls(provider, CONVERSE, lambda api: api.count_tokens("Hello", system="Be brief.", tools=[tool])) == TOKENS
    method, path, body = sent(provider)
    assert (method, path) == ("POST", "/model/anthropic.claude-opus-4-8/count-tokens")
    shape = botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("CountTokens")
    known = shape.input_shape.members["input"].members["converse"].members
    assert {"messages", "system", "toolConfig"} <= body["input"]["converse"].keys() <= known.keys()


def test_a_file_is_deleted_by_its_id(provider: Provider, calls: Calls) -> None:
    """An id cannot leave the path of files."""
    calls(provider, CLAUDE, lambda api: api.delete_file("file_1"))
    calls(provider, RESPONSES, lambda api: api.delete_file("a/b c"))
    calls(provider, GEMINI, lambda api: api.delete_file(ProviderFile(provider="google", id="files/abc-123")))
    assert provider.deleted == ["/v1/files/file_1", "/openai/v1/files/a%2Fb%20c", "/v1beta/files/abc-123"]
    with pytest.raises(RequestError, match="not a name of a file"):
        calls(provider, GEMINI, lambda api: api.delete_file("models/../../x"))
    with pytest.raises(RequestError, match="segments"):
        calls(provider, CLAUDE, lambda api: api.delete_file("../models/x"))


@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["sync", "async"])
def test_a_policy_judges_what_is_counted_and_uploaded(
    provider: Provider, client: type[Client] | type[AsyncClient]
) -> None:
    """What a plugin denies is not sent; what it redacts is sent without the forbidden word."""
    denied = Calls(client, policy=Pipeline([DenyingPlugin(SECRET)]))
    for use in (
        lambda api: api.count_tokens(f"It is {SECRET}."),
        lambda api: api.upload(SECRET.encode(), name="a.txt"),
    ):
        with pytest.raises(PolicyDeniedError):
            denied(provider, CLAUDE, use)
    assert provider.requests == []
    redacted = Calls(client, policy=Pipeline([RedactingPlugin(SECRET)]))
    redacted(provider, CLAUDE, lambda api: api.count_tokens(f"It is {SECRET}."))
    redacted(provider, CLAUDE, lambda api: api.upload(f"It is {SECRET}.".encode(), name="a.txt"))
    redacted(provider, CLAUDE, lambda api: api.upload(PIXELS, name="a.png"))
    assert not any(SECRET.encode() in request.body for request in provider.requests)
    assert provider.uploads == [("a.txt", "text/plain", b"It is ***."), ("a.png", "image/png", PIXELS)]


def test_services_count_under_the_limits_of_a_client(provider: Provider, calls: Calls) -> None:
    """Each request is one, also a page of a list; what would wait for longer than allowed is not sent."""
    calls = Calls(calls._client, limits=Limits(Limit(requests=2, seconds=3600, burst=1), max_wait=0))
    assert calls(provider, CLAUDE, lambda api: api.count_tokens("Hello")) == TOKENS
    with pytest.raises(LimitReachedError):
        calls(provider, CLAUDE, lambda api: api.models())
    with pytest.raises(LimitReachedError):
        calls(provider, CLAUDE, lambda api: api.upload(b"x", name="a.txt"))
    assert [each.method for each in provider.requests] == ["POST", "GET"]
    assert provider.uploads == []


def test_labels_of_a_prompt_need_a_reader(provider: Provider, calls: Calls) -> None:
    """A client without a policy and a router would forget them."""
    labelled = with_message_labels(Message.user("Hello"), frozenset({"secret"}))
    with pytest.raises(ConfigurationError, match="labels are for a policy or a router"):
        calls(provider, CLAUDE, lambda api: api.count_tokens(labelled))
    assert provider.requests == []


def test_a_closed_client_sends_nothing(provider: Provider) -> None:
    """Services end with their client."""
    client = Client(providers={"anthropic": {"base_url": provider.url, "api_key": KEY}})
    services = client.services(CLAUDE)
    client.close()
    for use in (services.models, lambda: services.count_tokens("Hi"), lambda: services.upload(b"x", name="a.txt")):
        with pytest.raises(ConfigurationError, match="closed"):
            use()
    assert provider.requests == []


def test_a_file_of_a_name_needs_one(tmp_path: Path) -> None:
    """Bytes without a name, a folder and a missing file are typed errors before anything is sent."""
    services = Services(CLAUDE, api_key=KEY, base_url="http://127.0.0.1:1")
    with pytest.raises(RequestError, match="have no name"):
        services.upload(b"x")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(RequestError, match="is not a file that can be uploaded"):
            services.upload(path)
    with pytest.raises(RequestError, match="at least one Message"):
        services.count_tokens([])


def test_an_upload_is_sent_once() -> None:
    """A failed upload is not repeated: it may have stored the file."""
    with FaultyServer(json_reply({"error": {"message": "busy"}}, 500)) as server:
        services = Services(CLAUDE, api_key=KEY, base_url=server.url)
        with pytest.raises(ServerError):
            services.upload(b"x", name="a.txt")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        json_reply({"data": 5}),
        json_reply({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}),
        json_reply([1]),
        HttpReply(body=b"<html>"),
    ],
    ids=["no list", "endless", "no object", "no JSON"],
)
def test_a_list_that_is_none_is_malformed(reply: HttpReply) -> None:
    """A server cannot keep a program reading forever, nor break it."""
    with FaultyServer(reply) as server:
        services = Services(CLAUDE, api_key=KEY, base_url=server.url)
        with pytest.raises(MalformedReplyError):
            services.models()
    assert len(server.requests) < MAX_PAGES


def test_values_of_other_kinds_are_unknown() -> None:
    """Sizes and times that are none are None."""
    assert [read_integer({"n": value}, "n") for value in (5, "5", True, "x", 5.5, "9" * 30)] == [
        5, 5, None, None, None, None,
    ]  # fmt: skip
    assert [read_time(value) for value in (True, "x", 10**20, None, [])] == [None] * 5


def test_an_image_is_an_image() -> None:
    """The kind of a block follows the media type."""
    file = ProviderFile(provider="anthropic", id="f", media_type="image/png")
    assert isinstance(file.block, ImageBlock)
