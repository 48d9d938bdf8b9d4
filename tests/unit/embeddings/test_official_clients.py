"""The same request and the same vectors as the official clients, on every wire whose client is installed."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import openai
import pytest
from google import genai
from google.genai import types

from dragoman import Client
from dragoman.embeddings import Embeddings
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider, running_provider

KEY = "canary-77aa"
TEXTS = ["one", "three", "sixteen letters "]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider(dimensions=1536) as found:
        yield found


def embed(provider: Provider, model: str, path: str = "", **options: Any) -> Embeddings:
    settings = {"base_url": provider.url + path, "api_key": KEY}
    with Client(providers={model.partition(":")[0]: settings}) as client:
        return client.embed(model, TEXTS, **options)


def last(provider: Provider) -> tuple[str, str, Any]:
    request = provider.requests[-1]
    return request.method, request.path, json.loads(request.body)


@pytest.mark.parametrize("model", ["openai:text-embedding-3-small", "openai-chat:text-embedding-3-small"])
@pytest.mark.parametrize("dimensions", [None, 256])
def test_openai(provider: Provider, model: str, dimensions: int | None) -> None:
    """Base64 on the wire, as the official client asks for by default; vectors in order although the reply is not."""
    found = embed(provider, model, "/v1", dimensions=dimensions)
    ours = last(provider)
    options: Any = {} if dimensions is None else {"dimensions": dimensions}
    with openai.OpenAI(api_key=KEY, base_url=provider.url + "/v1") as official:
        theirs = official.embeddings.create(model="text-embedding-3-small", input=TEXTS, **options)
    assert ours == last(provider)
    assert ours[2]["encoding_format"] == "base64"
    expected = sorted(theirs.data, key=lambda each: each.index)
    assert [list(each) for each in found] == [list(each.embedding) for each in expected]
    assert (found.dimensions, found.usage.input_tokens) == (dimensions or 1536, theirs.usage.prompt_tokens)


def test_azure(provider: Provider) -> None:
    found = embed(provider, "azure-openai:text-embedding-3-small", "/openai/v1")
    ours, header = last(provider), provider.requests[-1].headers["api-key"]
    address = provider.url + "/openai/v1"
    with openai.OpenAI(api_key=KEY, base_url=address, default_headers={"api-key": KEY}) as official:
        official.embeddings.create(model="text-embedding-3-small", input=TEXTS)
    assert (ours, header) == (last(provider), provider.requests[-1].headers["api-key"])
    assert len(found) == len(TEXTS)


def test_ollama(provider: Provider) -> None:
    """The body of the official client; inputs that are too long are refused, not cut."""
    found = embed(provider, "ollama:some-model", dimensions=64)
    ours = last(provider)
    with ollama.Client(host=provider.url) as official:
        theirs = official.embed("some-model", TEXTS, truncate=False, dimensions=64)
    assert ours == last(provider)
    assert [list(each) for each in found] == [list(each) for each in theirs.embeddings]
    assert found.usage.input_tokens == theirs.prompt_eval_count == TOKENS * len(TEXTS)


def embed_by_genai(provider: Provider, model: str, texts: list[str], *, vertex: bool, **config: Any) -> Any:
    options = types.HttpOptions(base_url=provider.url, api_version="v1" if vertex else "v1beta")
    with genai.Client(api_key=KEY, vertexai=vertex, http_options=options) as client:
        return client.models.embed_content(model=model, contents=list(texts), config=types.EmbedContentConfig(**config))


def test_google(provider: Provider) -> None:
    found = embed(provider, "google:gemini-embedding-001", purpose="document", dimensions=256)
    method, path, body = last(provider)
    theirs = embed_by_genai(
        provider, "gemini-embedding-001", TEXTS, vertex=False, task_type="RETRIEVAL_DOCUMENT", output_dimensionality=256
    )
    assert (method, path, body["requests"]) == (*last(provider)[:2], without_role(last(provider)[2]["requests"]))
    assert [list(each) for each in found] == [each.values for each in theirs.embeddings]


@pytest.mark.parametrize("model", ["text-embedding-005", "gemini-embedding-001"])
@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]], ids=["several", "one"])
def test_vertex(provider: Provider, model: str, texts: list[str]) -> None:
    settings = {"base_url": provider.url + "/v1", "api_key": KEY}
    with Client(providers={"google-vertex": settings}) as client:
        found = client.embed(f"google-vertex:{model}", texts, purpose="query", dimensions=256)
    method, path, body = last(provider)
    theirs = embed_by_genai(
        provider, model, texts, vertex=True, task_type="RETRIEVAL_QUERY", output_dimensionality=256, auto_truncate=False
    )
    assert (method, path) == last(provider)[:2]
    assert body == without_role(last(provider)[2])
    assert [list(each) for each in found] == [each.values for each in theirs.embeddings]
    assert found.usage.input_tokens == TOKENS * len(texts)


def without_role(value: Any) -> Any:
    """The request without the role of its contents, which the API does not need."""
    if isinstance(value, dict):
        return {key: without_role(each) for key, each in value.items() if key != "role"}
    return [without_role(each) for each in value] if isinstance(value, list) else value


def test_cohere(provider: Provider) -> None:
    """These clients are large: `uv run --with cohere --with mistralai --with voyageai pytest` has them, others skip."""
    client = pytest.importorskip("cohere").ClientV2
    found = embed(provider, "cohere:embed-v4.0", purpose="query", dimensions=256, truncate="start")
    ours = last(provider)
    with httpx.Client() as http:
        theirs = client(KEY, base_url=provider.url, httpx_client=http).embed(
            model="embed-v4.0", texts=TEXTS, input_type="search_query", output_dimension=256, truncate="START",
            embedding_types=["float"],
        )  # fmt: skip
    assert ours == last(provider)
    assert [list(each) for each in found] == theirs.embeddings.float_
    assert found.usage.input_tokens == theirs.meta.billed_units.input_tokens


def test_mistral(provider: Provider) -> None:
    """Our request is that of the official client, which leaves the sorting to its caller."""
    client = pytest.importorskip("mistralai.client").Mistral
    found = embed(provider, "mistral:codestral-embed", "/v1", dimensions=256)
    ours = last(provider)
    with httpx.Client() as http:
        official = client(api_key=KEY, server_url=provider.url, client=http)
        theirs = official.embeddings.create(model="codestral-embed", inputs=TEXTS, output_dimension=256)
    assert ours == last(provider)
    assert [list(each) for each in found] == [each.embedding for each in sorted(theirs.data, key=lambda one: one.index)]
    assert found.usage.input_tokens == theirs.usage.prompt_tokens


def test_voyage(provider: Provider) -> None:
    """As the official client, which writes fields that are not set as null and does not sort the vectors."""
    official = pytest.importorskip("voyageai").Client(api_key=KEY, base_url=provider.url + "/v1")
    found = embed(provider, "voyageai:voyage-4", "/v1", purpose="query", dimensions=256)
    ours = last(provider)
    theirs = official.embed(TEXTS, model="voyage-4", input_type="query", truncation=False, output_dimension=256)
    method, path, body = last(provider)
    assert ours == (method, path, {name: value for name, value in body.items() if value is not None})
    assert sorted(map(list, found)) == sorted(map(list, theirs.embeddings))
    assert found.usage.input_tokens == theirs.total_tokens


@pytest.mark.parametrize(
    ("model", "path", "options", "expected"),
    [
        (
            "cohere:embed-v4.0", "", {"purpose": "query", "dimensions": 256, "truncate": "start"},
            {"input_type": "search_query", "truncate": "START", "output_dimension": 256, "embedding_types": ["float"]},
        ),
        ("cohere:embed-english-v3.0", "", {"dimensions": 1024}, {"input_type": "search_document", "truncate": "NONE"}),
        ("mistral:codestral-embed", "/v1", {"dimensions": 512}, {"output_dimension": 512}),
        (
            "voyageai:voyage-4", "/v1", {"purpose": "query", "dimensions": 256},
            {"input_type": "query", "truncation": False, "output_dimension": 256, "encoding_format": "base64"},
        ),
        ("voyageai:voyage-4", "/v1", {"truncate": "end", "dimensions": 1024}, {"truncation": True}),
        ("llamacpp:bge-small", "/v1", {}, {"encoding_format": "base64"}),
        ("huggingface:BAAI/bge-small-en-v1.5", "/v1", {"dimensions": 64}, {"dimensions": 64}),
    ],
)  # fmt: skip
def test_wires_without_a_client_here(
    provider: Provider, model: str, path: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Handwritten from the providers' pages: their clients are not installed."""
    provider.dimensions = options.get("dimensions", 1536)
    found = embed(provider, model, path, **options)
    body = last(provider)[2]
    assert {name: body.get(name) for name in expected} == expected
    assert body["model"] == model.partition(":")[2]
    assert [each[0] for each in found] == [len(each) for each in TEXTS]
    assert found.dimensions == options.get("dimensions", 1536)
    assert found.usage.input_tokens == TOKENS * len(TEXTS)
