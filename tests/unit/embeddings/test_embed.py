"""Many inputs: split, sent side by side, joined in order, retried in part, resumed, and never paid twice."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman import AsyncClient, Client, WireResponse
from dragoman.attempt.governance import Governance
from dragoman.blocks import ImageBlock, MediaSource
from dragoman.effects import Perform
from dragoman.embeddings import Embeddings, PartialEmbeddings, check_comparable, embed, embed_async, similarities
from dragoman.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextOverflowError,
    DragomanError,
    MalformedReplyError,
    RequestError,
    ServerError,
)
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from dragoman.transport import RetryPolicy
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider, running_provider, to_base64, vector

MODEL = "openai:text-embedding-3-small"
COHERE = "cohere:embed-v4.0"
QUICK = RetryPolicy(initial_wait=0, jitter=0)
Call = Callable[..., Embeddings]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider(dimensions=1536) as found:
        yield found


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    """`embed` of a client, called without await."""

    def run(url: str, model: str, inputs: Any, **options: Any) -> Embeddings:
        providers = {model.partition(":")[0]: {"base_url": url, "api_key": "k", "retry": QUICK}}
        if request.param == "sync":
            with Client(providers=providers) as client:
                return client.embed(model, inputs, **options)

        async def run_async() -> Embeddings:
            async with AsyncClient(providers=providers) as asynchronous:
                return await asynchronous.embed(model, inputs, **options)

        return asyncio.run(run_async())

    return run


def texts(count: int) -> list[str]:
    return ["x" * (number % 37 + 1) for number in range(count)]


def test_many_inputs_are_split_and_joined_in_order(provider: Provider, call: Call) -> None:
    """96 inputs a request at most, whichever request is answered first."""
    found = call(provider.url, COHERE, inputs := texts(500))
    assert [each[0] for each in found] == [len(text) for text in inputs]
    assert sorted(len(body["texts"]) for body in provider.bodies) == [20, 96, 96, 96, 96, 96]
    assert found.usage.input_tokens == 500 * TOKENS
    assert len(found.receipts) == 6
    assert found.usage.cost_usd == sum(each.usage.cost_usd for each in found.receipts if each.usage)


def test_the_tokens_of_a_request_are_limited(provider: Provider, call: Call) -> None:
    """Mistral takes 16,000 tokens a request: long inputs stand in several requests."""
    inputs = [f"{number} " + "word " * 3_000 for number in range(6)]
    provider.dimensions = 1024
    found = call(provider.url, "mistral:mistral-embed", inputs)
    assert [each[0] for each in found] == [len(text) for text in inputs]
    assert 2 <= len(provider.requests) <= 6


def test_requests_are_sent_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three requests wait for each other, so a call that sent them in a row would never end."""
    reply = WireResponse(200, json.dumps({"embeddings": {"float": [[0.5] * 1536] * 96}}).encode())
    together, together_async = threading.Barrier(3, timeout=60), asyncio.Barrier(3)

    def send(*_: Any) -> WireResponse:
        together.wait()
        return reply

    async def send_async(*_: Any) -> WireResponse:
        await together_async.wait()
        return reply

    monkeypatch.setattr(Governance, "send", lambda *_: Perform(send, send_async))
    assert len(embed(COHERE, texts(3 * 96), api_key="k", concurrency=3)) == 3 * 96
    waiting = embed_async(COHERE, texts(3 * 96), api_key="k", concurrency=3)
    assert len(asyncio.run(asyncio.wait_for(waiting, 60))) == 3 * 96


def test_one_text_is_one_input(provider: Provider, call: Call) -> None:
    """A text is never taken apart into its letters."""
    found = call(provider.url, MODEL, "hello")
    assert provider.bodies[0]["input"] == ["hello"]
    assert (len(found), found[0][0], found.dimensions) == (1, 5.0, 1536)
    assert found.matrix.shape == (1, 1536)
    assert found.matrix.dtype == "float32"
    assert list(found.matrix[0]) == list(found[0])
    assert found.normalized is True


@pytest.mark.parametrize(
    ("model", "inputs", "options", "words"),
    [
        (MODEL, [], {}, "nothing to embed"),
        (MODEL, ["a", ""], {}, "input 1 is an empty text"),
        (MODEL, ["a", 5], {}, "input 1 is of the class int"),
        (MODEL, ["a"], {"dimensions": 1537}, "it has 1 to 1536"),
        (MODEL, ["a"], {"dimensions": 0}, "it has 1 to 1536"),
        ("openai:text-embedding-ada-002", ["a"], {"dimensions": 256}, "it has 1536 alone"),
        (COHERE, ["a"], {"dimensions": 300}, "it has 256, 512, 1024, 1536"),
        (MODEL, ["a"], {"concurrency": 0}, "at least 1"),
        (
            MODEL,
            [ImageBlock(source=MediaSource(kind="base64", data="AAAA"), media_type="image/png")],
            {},
            "reads only texts",
        ),
        (
            COHERE,
            [ImageBlock(source=MediaSource(kind="url", data="https://example.com/a.png"), media_type="image/png")],
            {},
            "as base64",
        ),
    ],
)
def test_bad_inputs_are_refused(
    provider: Provider, call: Call, model: str, inputs: Any, options: dict[str, Any], words: str
) -> None:
    """Before anything is sent."""
    with pytest.raises(RequestError, match=words):
        call(provider.url, model, inputs, **options)
    assert provider.requests == []


def test_a_provider_without_embeddings_says_so() -> None:
    """Anthropic has none."""
    with pytest.raises(ConfigurationError, match="embeds nothing"):
        embed("anthropic:claude-opus-5-5", "hello", api_key="k")


def test_a_long_input_is_refused_or_cut(provider: Provider, call: Call) -> None:
    """Refused by default; cut at either end with a loss that names the input."""
    long = "beginning " + "word " * 20_000 + "end"
    with pytest.raises(ContextOverflowError, match=r"input 1 has about .* split it, or pass truncate"):
        call(provider.url, MODEL, ["short", long])
    assert provider.requests == []
    found = call(provider.url, MODEL, ["short", long], truncate="end")
    sent = provider.bodies[-1]["input"][1]
    assert long.startswith(sent)
    assert len(long) / 4 < len(sent) < len(long)
    assert [(loss.kind, loss.block_index) for loss in found.losses] == [("truncated", 1)]
    call(provider.url, MODEL, ["short", long], truncate="start")
    assert long.endswith(provider.bodies[-1]["input"][1])


def test_a_provider_that_cuts_is_asked_to(provider: Provider, call: Call) -> None:
    """Cohere cuts by itself, which is more exact than an estimate."""
    provider.dimensions = 1024
    long = "word " * 2_000
    found = call(provider.url, "cohere:embed-english-v3.0", [long], truncate="end")
    assert (provider.bodies[-1]["texts"], provider.bodies[-1]["truncate"]) == ([long], "END")
    assert [loss.kind for loss in found.losses] == ["truncated"]


def test_the_other_end_is_cut_here(provider: Provider, call: Call) -> None:
    """Voyage cuts ends alone: the start is cut before the text is sent, and the provider may cut nothing."""
    provider.dimensions = 1024
    long = "beginning " + "word " * 40_000 + "end"
    call(provider.url, "voyageai:voyage-4", [long], truncate="start")
    (sent,) = provider.bodies[-1]["input"]
    assert long.endswith(sent)
    assert len(sent) < len(long)
    assert provider.bodies[-1]["truncation"] is False


def test_a_purpose_that_a_model_ignores_is_a_loss(provider: Provider, call: Call) -> None:
    """OpenAI's models embed queries and documents alike."""
    found = call(provider.url, MODEL, "a", purpose="query")
    assert [(loss.kind, loss.severity) for loss in found.losses] == [("option", "info")]
    assert call(provider.url, COHERE, "a", purpose="query").losses == ()


def test_a_prefix_says_the_purpose(provider: Provider, call: Call) -> None:
    """Models that read the purpose in the text get it there."""
    provider.dimensions = 768
    call(provider.url, "ollama:nomic-embed-text", ["a"], purpose="query")
    assert provider.bodies[-1]["input"] == ["search_query: a"]


def test_extra_fields_override(provider: Provider, call: Call) -> None:
    """A field with the value ``...`` is left out."""
    call(provider.url, MODEL, ["a"], extra={"user": "u1", "encoding_format": ...})
    assert "encoding_format" not in provider.bodies[-1]
    assert provider.bodies[-1]["user"] == "u1"


def failing(behind: Provider, fails: Callable[[Any], HttpReply | None]) -> Callable[[ReceivedRequest], HttpReply]:
    def reply(request: ReceivedRequest) -> HttpReply:
        return fails(json.loads(request.body)) or behind.reply(request)

    return reply


def test_a_failed_request_is_retried_alone(call: Call) -> None:
    """One of six requests fails once: seven are sent."""
    behind, failed = Provider(1536), []

    def fails(body: Any) -> HttpReply | None:
        if len(body["texts"]) == 20 and not failed:
            failed.append(body)
            return json_reply({"message": "busy"}, 503)
        return None

    with FaultyServer(failing(behind, fails)) as server:
        found = call(server.url, COHERE, inputs := texts(500))
        assert len(server.requests) == 7
    assert [each[0] for each in found] == [len(text) for text in inputs]
    assert found.usage.input_tokens == 500 * TOKENS


def test_what_was_paid_is_not_paid_twice(call: Call) -> None:
    """The error has the vectors so far; a second call sends what is missing alone, and its usage is that of both."""
    behind, broken = Provider(1536), [True]

    def fails(body: Any) -> HttpReply | None:
        return json_reply({"message": "bad key"}, 401) if broken and len(body["texts"]) == 8 else None

    inputs = texts(200)
    with FaultyServer(failing(behind, fails)) as server:
        with pytest.raises(AuthenticationError) as raised:
            call(server.url, COHERE, inputs, concurrency=1)
        partial = raised.value.embedded
        assert isinstance(partial, PartialEmbeddings)
        assert partial.missing == tuple(range(192, 200))
        assert partial.usage.input_tokens == 192 * TOKENS
        broken.clear()
        found = call(server.url, COHERE, inputs, resume=partial)
        assert [len(body["texts"]) for body in behind.bodies] == [96, 96, 8]
        assert [each[0] for each in found] == [len(text) for text in inputs]
        assert found.usage.input_tokens == 200 * TOKENS
        with pytest.raises(RequestError, match="the inputs and the options"):
            call(server.url, COHERE, [*inputs, "another"], resume=partial)
        assert call(server.url, COHERE, inputs, resume=PartialEmbeddings(
            partial.model, list(found.vectors), partial.key, found.receipts
        )).usage == found.usage  # fmt: skip
        assert len(behind.requests) == 3


def openai_reply(vectors: Any, usage: Any = None) -> HttpReply:
    data = [{"object": "embedding", "index": number, "embedding": each} for number, each in enumerate(vectors)]
    return json_reply({"object": "list", "data": data, "model": "m", **({"usage": usage} if usage else {})})


NAN = to_base64([float("nan"), *[0.5] * 1535])
INFINITE = to_base64([float("inf"), *[0.5] * 1535])


@pytest.mark.parametrize(
    "reply",
    [
        openai_reply([vector("a", 1536)]),
        openai_reply([vector("a", 1536)] * 3),
        openai_reply([vector("a", 1536), vector("a", 1535)]),
        openai_reply([vector("a", 1536), []]),
        openai_reply([vector("a", 1536), NAN]),
        openai_reply([vector("a", 1536), INFINITE]),
        openai_reply([vector("a", 1536), "AAA"]),
        openai_reply([vector("a", 1536), "AAAAAA=="]),
        openai_reply([vector("a", 1536), "not base64!"]),
        openai_reply([vector("a", 1536), ["a"] * 1536]),
        openai_reply([vector("a", 1536), None]),
        openai_reply([vector("a", 1536), 5]),
        HttpReply(headers={"content-type": "application/json"}, body=b'{"data":[{"embedding":[NaN]}]}'),
        json_reply({"data": None}),
        json_reply({"data": [5, 5]}),
        json_reply([]),
        HttpReply(headers={"content-type": "application/json"}, body=b'{"data"'),
    ],
)  # fmt: skip
def test_a_bad_reply_is_a_typed_error_and_sent_once(call: Call, reply: HttpReply) -> None:
    """It was billed: a second attempt would be billed again."""
    with FaultyServer(reply) as server:
        with pytest.raises(MalformedReplyError) as raised:
            call(server.url, MODEL, ["a", "b"])
        assert len(server.requests) == 1
    assert raised.value.embedded.missing == (0, 1)
    assert len(raised.value.embedded.receipts) == 1


def test_another_length_than_asked_for_is_refused(call: Call) -> None:
    """A server that ignores the dimensions would spoil an index."""
    with FaultyServer(openai_reply([vector("a", 1536)])) as server, pytest.raises(MalformedReplyError, match="not 256"):
        call(server.url, MODEL, "a", dimensions=256)


def test_a_billed_reply_without_vectors_is_counted(call: Call) -> None:
    """The receipt has the tokens that the reply reports."""
    counts = {"prompt_tokens": 7, "total_tokens": 7}
    with FaultyServer(openai_reply([vector("a", 1536)], counts)) as server, pytest.raises(DragomanError) as raised:
        call(server.url, MODEL, ["a", "b"])
    assert raised.value.embedded.usage.input_tokens == 7
    assert raised.value.embedded.usage.cost_usd is not None


def test_requests_of_other_lengths_do_not_mix(call: Call) -> None:
    """A model of unknown dimensions has the same length in every request."""
    counts = iter(range(4, 100))

    def reply(request: ReceivedRequest) -> HttpReply:
        length = next(counts)
        return openai_reply([[0.5] * length for _ in json.loads(request.body)["input"]])

    with FaultyServer(reply) as server, pytest.raises(MalformedReplyError, match="5 dimensions, not 4"):
        call(server.url, "huggingface:some/model", texts(64), concurrency=1)


def test_a_reply_without_counts_has_no_cost(call: Call) -> None:
    """Unknown is never 0; at a provider that is free, it is free."""
    with FaultyServer(openai_reply([vector("a", 1536)])) as server:
        found = call(server.url, MODEL, "a")
    assert (found.usage.cost_usd, found.usage.cost_status, found.usage.unread) == (None, "unpriced", ("usage",))
    with FaultyServer(json_reply({"model": "m", "embeddings": [[1.0, 2.0]]})) as server:
        assert call(server.url, "ollama:m", "a").usage.cost_status == "free"


def test_errors_are_those_of_the_provider(call: Call) -> None:
    """The same classes as for a conversation, after all attempts."""
    with FaultyServer(json_reply({"error": {"message": "down", "code": "x"}}, 500)) as server:
        with pytest.raises(ServerError) as raised:
            call(server.url, MODEL, "a")
        assert len(server.requests) == len(raised.value.attempts) == 3


def test_only_vectors_of_one_model_are_compared(provider: Provider, call: Call) -> None:
    """Two models, or two lengths, are a mistake; the cosine of a vector with itself is 1."""
    small = call(provider.url, MODEL, ["a", "bb"], dimensions=3)
    other = call(provider.url, COHERE, ["a"])
    with pytest.raises(RequestError, match="different models"):
        check_comparable(small, other)
    with pytest.raises(RequestError, match="different lengths"):
        similarities(small, call(provider.url, MODEL, ["a"], dimensions=4))
    rows = similarities(small, small)
    assert [[round(each, 5) for each in row] for row in rows] == [[1.0, 0.96225], [0.96225, 1.0]]


def test_similarities_need_no_numpy(provider: Provider, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers without it; a matrix needs it."""
    found = call(provider.url, MODEL, ["a", "bb", "ccccc"], dimensions=5)
    with_numpy = similarities(found, found)
    monkeypatch.setitem(sys.modules, "numpy", None)
    for row, expected in zip(similarities(found, found), with_numpy, strict=True):
        assert list(row) == pytest.approx(list(expected), abs=1e-5)
    with pytest.raises(ConfigurationError, match="numpy"):
        _ = found.matrix
