"""What a client used so far, and costs that are added."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Client
from dragoman.canonical.usage import CostStatus, TokenUsage, describe_tokens
from dragoman.errors import ProviderError, StreamTruncatedError
from dragoman.session import Cost
from dragoman.session.cost import NO_COST
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

UNCOUNTED = {"model": "qwen3", "message": {"role": "assistant", "content": "One."}, "done": True, "done_reason": "stop"}


def make_client(wire: Any, kind: Any = Client, provider: str = "anthropic") -> Any:
    http = httpx.Client if kind is Client else httpx.AsyncClient
    return kind(providers={provider: {"api_key": "k", "client": http(transport=httpx.MockTransport(wire))}})


def answer(request: httpx.Request, usage: tuple[int, int] = (1000, 100)) -> httpx.Response:
    return Wire([handwritten_anthropic("One.", usage=usage)])(request)


def test_a_client_sums_what_it_used() -> None:
    """Questions and sessions count alike, and another client counts for itself."""
    client = make_client(answer)
    assert (client.cost, client.usage) == (NO_COST, TokenUsage())
    asked = client.ask(ANTHROPIC, "Hi")
    with client.session(ANTHROPIC) as session:
        session.ask("Hi")
        with session.stream("And?") as stream:
            list(stream)
    assert client.cost == asked.cost + session.cost == sum([asked.cost, session.cost])
    assert client.cost.replies == 3
    assert client.cost.usd == Decimal(3) * asked.cost.usd
    assert (client.usage.input_tokens, client.usage.output_tokens) == (3000, 300)
    derived = client.with_()
    derived.ask(ANTHROPIC, "Hi")
    assert (derived.cost.replies, client.cost.replies) == (1, 3)


def test_a_client_counts_in_all_threads() -> None:
    client = make_client(answer)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.ask(ANTHROPIC, "Hi"), range(40)))
    assert (client.cost.replies, client.usage.input_tokens) == (40, 40_000)


def test_an_async_client_sums_what_it_used() -> None:
    async def main() -> AsyncClient:
        client = make_client(answer, AsyncClient)
        await asyncio.gather(*(client.ask(ANTHROPIC, "Hi") for _ in range(3)))
        return client  # type: ignore[no-any-return]

    assert asyncio.run(main()).cost.replies == 3


def test_what_was_loaded_is_not_counted_again() -> None:
    client = make_client(answer)
    session = client.session(ANTHROPIC)
    session.ask("Hi")
    again = make_client(answer)
    loaded = again.load(session.dump())
    assert loaded.cost == session.cost
    assert again.cost == NO_COST
    loaded.ask("Hi")
    assert again.cost.replies == 1


def test_a_reply_without_counts_is_not_nothing() -> None:
    """It is counted as a reply with an unknown cost, and said where usage is shown."""
    client = make_client(lambda _: httpx.Response(200, json=UNCOUNTED), provider="ollama")
    reply = client.ask(OLLAMA, "Hi")
    assert (reply.message.usage, reply.usage.uncounted_replies) == (None, 1)
    assert (reply.cost.uncounted, reply.cost.usd, reply.cost.status) == (1, None, CostStatus.UNPRICED)
    assert repr(reply).endswith("the provider reported no tokens, unknown (the provider reported no tokens))")
    total = client.cost + Cost(Decimal("0.5"), CostStatus.PRICED, {"a:b": Decimal("0.5")}, 2)
    assert str(total) == "$0.500000 at least: no tokens were reported of 1 of its 3 replies"


def test_a_reply_that_broke_says_what_it_cost() -> None:
    """The error has the usage that had arrived, and the client counts it."""
    start = {"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1000, "output_tokens": 1}}}  # fmt: skip
    frame = f"event: message_start\ndata: {json.dumps(start)}\n\n".encode()
    reply = partial(httpx.Response, 200, headers={"content-type": "text/event-stream"}, content=frame)
    client = make_client(lambda _: reply())
    with pytest.raises(StreamTruncatedError) as caught, client.stream(ANTHROPIC, "Hi") as stream:
        list(stream)
    usage = caught.value.usage
    assert usage is not None
    assert usage.cost_usd is not None
    assert (usage.input_tokens, usage.cost_status) == (1000, CostStatus.PARTIAL)
    assert client.cost.usd is not None
    assert client.cost.usd >= usage.cost_usd
    assert client.usage.input_tokens >= 1000


def test_an_error_without_a_reply_has_no_usage() -> None:
    client = make_client(lambda _: httpx.Response(400, json={"type": "error", "error": {"message": "no"}}))
    with pytest.raises(ProviderError) as caught:
        client.ask(ANTHROPIC, "Hi")
    assert caught.value.usage is None
    assert client.cost == NO_COST


def test_embeddings_are_counted() -> None:
    body = {"object": "list", "model": "text-embedding-3-small", "usage": {"prompt_tokens": 8, "total_tokens": 8},
            "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 0.0]}]}  # fmt: skip
    client = make_client(lambda _: httpx.Response(200, json=body), provider="openai")
    embedded = client.embed("openai:text-embedding-3-small", ["Hi"])
    assert (client.usage.input_tokens, client.cost.usd) == (8, embedded.usage.cost_usd)


PRICED = Cost(Decimal(1), CostStatus.PRICED, {"a:x": Decimal(1)}, 1)
UNPRICED = Cost(None, CostStatus.UNPRICED, {"a:y": None}, 2, 1)
FREE = Cost(Decimal(0), CostStatus.FREE, {"a:x": Decimal(0)}, 1)


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        (PRICED, PRICED, Cost(Decimal(2), CostStatus.PRICED, {"a:x": Decimal(2)}, 2)),
        (PRICED, FREE, Cost(Decimal(1), CostStatus.PRICED, {"a:x": Decimal(1)}, 2)),
        (PRICED, UNPRICED, Cost(Decimal(1), CostStatus.PARTIAL, {"a:x": Decimal(1), "a:y": None}, 3, 1)),
        (UNPRICED, UNPRICED, Cost(None, CostStatus.UNPRICED, {"a:y": None}, 4, 2)),
        (NO_COST, UNPRICED, UNPRICED),
        (NO_COST, NO_COST, NO_COST),
    ],
)
def test_costs_add_up(one: Cost, other: Cost, total: Cost) -> None:
    assert one + other == other + one == sum([one, other]) == total


def test_a_cost_adds_to_costs_alone() -> None:
    with pytest.raises(TypeError):
        PRICED + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        1 + PRICED  # type: ignore[operator]


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (None, "the provider reported no tokens"),
        (TokenUsage(uncounted_replies=2), "the provider reported no tokens"),
        (TokenUsage(input_tokens=1200, uncounted_replies=1), "at least 1,200 tokens"),
        (TokenUsage(input_tokens=12, unread=("output_tokens",)), "at least 12 tokens"),
        (TokenUsage(input_tokens=12), "12 tokens"),
        (TokenUsage(), "0 tokens"),
    ],
)
def test_unknown_tokens_are_said(usage: TokenUsage | None, text: str) -> None:
    assert describe_tokens(usage) == text
