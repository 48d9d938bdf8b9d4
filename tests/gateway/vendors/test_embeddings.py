"""The official clients of three vendors embed texts through a gateway, with models of any provider."""

import base64
import json
import re
from array import array

import httpx
import ollama
import openai
import pytest
from google import genai
from google.genai import types

from dragoman import Budget
from dragoman.policy import Pipeline
from dragoman.testing.faults.server import json_reply
from tests.gateway.keyed import Start
from tests.gateway.upstream import gateway_before
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider
from tests.unit.session.middleware.policy_plugins import DenyingPlugin

TEXTS = ["The Prado is in Madrid.", "Bern"]
LENGTHS = [float(len(text)) for text in TEXTS]
MODELS = [
    "openai:text-embedding-3-small",
    "google:gemini-embedding-001",
    "cohere:embed-v4.0",
    "ollama:nomic-embed-text",
]
SHORT = 256
"""A length that all these models may be asked for."""


@pytest.mark.parametrize("model", MODELS)
def test_openai_s_client(model: str) -> None:
    """It asks for base64 unless the program says otherwise, and gives the program numbers either way."""
    with gateway_before(Provider(SHORT).reply, models={"house": model}) as (url, server):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        packed = client.embeddings.create(model="house", input=TEXTS, dimensions=SHORT)
        plain = client.embeddings.create(model="house", input=TEXTS[0], dimensions=SHORT, encoding_format="float")
        client.close()
    assert [each.embedding[0] for each in packed.data] == LENGTHS
    assert [each.index for each in packed.data] == [0, 1]
    assert packed.data[0].embedding == plain.data[0].embedding
    assert len(packed.data[0].embedding) == SHORT
    assert (packed.model, packed.usage.prompt_tokens) == ("house", 2 * TOKENS)
    assert len(server.requests) == 2


def test_openai_s_two_forms_on_the_wire() -> None:
    body = {"model": "openai:text-embedding-3-small", "input": "Bern", "user": "u1"}
    with gateway_before(Provider(1536).reply) as (url, server):
        forms = [
            httpx.post(f"{url}/v1/embeddings", json={**body, **more}).json()["data"][0]["embedding"]
            for more in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"})
        ]
        elsewhere = httpx.post(f"{url}/v1/embeddings", json={**body, "model": "ollama:nomic-embed-text"})
        first, *_, last = (json.loads(each.body) for each in server.requests)
    assert forms[0] == forms[1]
    assert forms[0][:2] == [4.0, 0.5]
    assert array("f", base64.b64decode(forms[2])).tolist() == forms[0]
    assert (first["user"], "user" in last) == ("u1", False)
    assert elsewhere.headers["x-dragoman-losses"] == "1; option=1"


REFUSED = [
    ({"input": [1, 2, 3]}, "tokens are not possible here"),
    ({"input": [[1, 2], [3]]}, "tokens are not possible here"),
    ({"input": []}, "a string or a list of strings"),
    ({"input": None}, "a string or a list of strings"),
    ({"input": [{"text": "a"}]}, "a string or a list of strings"),
    ({"input": ""}, "empty"),
    ({"input": "a", "dimensions": -1}, "dimensions"),
    ({"input": "a", "dimensions": True}, "dimensions"),
    ({"input": "a", "dimensions": 4_000_000}, "dimensions"),
    ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    ({"input": "a", "model": ""}, "model"),
    ({"input": "a", "model": "anthropic:claude-opus-5-5"}, "has no embeddings"),
]


def test_what_no_model_can_embed_is_refused_before_it_is_sent() -> None:
    with gateway_before(Provider().reply) as (url, server):
        replies = [
            httpx.post(f"{url}/v1/embeddings", json={"model": "openai:text-embedding-3-small", **body})
            for body, _ in REFUSED
        ]
        sent = len(server.requests)
    wrong = [
        (body, reply.status_code, reply.text)
        for (body, reason), reply in zip(REFUSED, replies, strict=True)
        if reply.status_code not in (400, 404) or reason not in reply.json()["error"]["message"]
    ]
    assert wrong == []
    assert sent == 0


@pytest.mark.parametrize("model", MODELS)
def test_google_s_client(model: str) -> None:
    with (
        gateway_before(Provider(SHORT).reply, models={"house": model}) as (url, _),
        genai.Client(api_key="mine", http_options=types.HttpOptions(base_url=url)) as client,
    ):
        config = types.EmbedContentConfig(output_dimensionality=SHORT)
        reply = client.models.embed_content(model="house", contents=TEXTS, config=config)
        one = {"content": {"parts": [{"text": "Be"}, {"text": "rn"}]}, "output_dimensionality": SHORT}
        single = httpx.post(f"{url}/v1/models/house:embedContent", json=one).json()
    assert [each.values[0] for each in reply.embeddings] == LENGTHS
    assert len(reply.embeddings[0].values) == SHORT
    assert single["embedding"]["values"][0] == 4.0
    assert single["usageMetadata"] == {"promptTokenCount": TOKENS}


def test_google_s_requests_keep_their_purposes_and_their_order() -> None:
    tasks = ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY", "CLUSTERING", "RETRIEVAL_DOCUMENT"]
    requests = [
        {"content": {"parts": [{"text": "x" * number}]}, "taskType": task, "title": "T"}
        for number, task in enumerate(tasks, 1)
    ]
    with gateway_before(Provider().reply, models={"house": "cohere:embed-v4.0"}) as (url, server):
        reply = httpx.post(f"{url}/v1beta/models/house:batchEmbedContents", json={"requests": requests})
        sent = [json.loads(each.body) for each in server.requests]
        wrong = httpx.post(f"{url}/v1beta/models/house:batchEmbedContents", json={"requests": [{"content": {}}]})
    assert [each["values"][0] for each in reply.json()["embeddings"]] == [1.0, 2.0, 3.0, 4.0]
    purposes = {each["input_type"]: each["texts"] for each in sent[:2]}
    assert purposes == {"search_document": ["x", "xxxx"], "search_query": ["xx"]}
    assert reply.headers["x-dragoman-losses"].startswith("4; option=4")
    assert wrong.json()["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("model", MODELS)
def test_ollama_s_client(model: str) -> None:
    with (
        gateway_before(Provider(SHORT).reply, models={"house": model}) as (url, _),
        ollama.Client(host=url) as client,
    ):
        reply = client.embed(model="house", input=TEXTS, dimensions=SHORT)
        one = client.embed(model="house:latest", input=TEXTS[1], dimensions=SHORT)
    assert [vector[0] for vector in reply.embeddings] == LENGTHS
    assert one.embeddings[0] == reply.embeddings[1]
    assert reply.prompt_eval_count == 2 * TOKENS


def test_ollama_s_older_client() -> None:
    with (
        gateway_before(Provider().reply) as (url, _),
        ollama.Client(host=url) as client,
    ):
        assert client.embeddings(model="ollama:nomic-embed-text", prompt="Bern").embedding[0] == 4.0


def test_budgets_policy_and_counts_hold_for_embeddings() -> None:
    client = {"budgets": [Budget(tokens=10, per="client")], "policy": Pipeline([DenyingPlugin("secret")])}
    with gateway_before(Provider(1536).reply, client=client) as (url, server):
        body = {"model": "openai:text-embedding-3-small", "input": "Bern"}
        good = httpx.post(f"{url}/v1/embeddings", json=body)
        denied = httpx.post(f"{url}/v1/embeddings", json={**body, "input": "a secret"})
        spent = httpx.post(f"{url}/v1/embeddings", json=body)
        counts = httpx.get(f"{url}/metrics").text
    assert good.status_code == 200, good.text
    assert (denied.status_code, len(server.requests)) == (400, 1)
    assert spent.status_code == 429
    assert spent.json()["error"]["code"] == "insufficient_quota"
    assert 'dragoman_tokens_total{kind="input_tokens",model="openai:text-embedding-3-small"} 3.0' in counts


def test_a_request_that_fails_half_way_costs_the_same_in_the_metrics_and_for_its_key(start: Start) -> None:
    """Inputs beyond those that the provider takes at once are a request of their own, which may fail."""
    answers = iter((Provider().reply, lambda _: json_reply({"message": "no"}, 400)))
    setup = start(lambda request: next(answers)(request), models={"embed": "cohere:embed-v4.0"})
    key, secret = setup.create_key()
    failed = setup.http(secret).post("/v1/embeddings", json={"model": "embed", "input": ["Bern"] * 97})
    counts = setup.bare.get("/metrics").text
    assert failed.status_code == 400
    charged = setup.spent(f"key:{key}").tokens
    assert charged > 0
    assert re.findall(r'dragoman_tokens_total{kind="input_tokens",.*} (.+)', counts) == [f"{charged:.1f}"]
