"""The rows: what is measured, against which peer, and the goal of each."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.canonical.events import MessageComplete
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import price_table
from dragoman.transport import AsyncHttpTransport, HttpTransport
from tests.benchmarks.mock_provider import DELTAS
from tests.benchmarks.timing import Row, import_cpu, process_cpu, time_in_turns

MODEL = "anthropic:claude-sonnet-4-6"
QUESTION = "What is the capital of France?"
BODY = {"model": "claude-sonnet-4-6", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}
HEADERS = {"x-api-key": "none", "anthropic-version": "2026-10-21"}


def importing() -> list[Row]:
    """A fresh interpreter that imports one package."""
    times = import_cpu(["httpx", "anthropic", "openai", "dragoman"], rounds=7)
    return [
        Row(f"import, against {peer}", peer, times[peer], times["dragoman"], "at most 150 ms")
        for peer in ("httpx", "openai", "anthropic")
    ]


_FIRST_ANSWERS = {
    "httpx": """
import sys, httpx
body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi!"}]}
assert httpx.Client().post(sys.argv[1] + "/v1/messages", json=body).json()["content"][0]["text"]
""",
    "anthropic": """
import sys, anthropic
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none")
prompt = [{"role": "user", "content": "Hi!"}]
assert client.messages.create(model="claude-sonnet-4-6", max_tokens=9, messages=prompt).content[0].text
""",
    "ours": """
import sys
from dragoman import Session
session = Session("anthropic:claude-sonnet-4-6", providers={"anthropic": {"base_url": sys.argv[1], "api_key": "none"}})
assert session.ask("Hi!").text
""",
}


def first_answer(base_url: str) -> list[Row]:
    """A fresh process with nothing in memory, up to its first answer, with the start of the interpreter."""
    times = process_cpu(_FIRST_ANSWERS, base_url, rounds=7)
    return [
        Row(f"first answer, against {peer}", peer, times[peer], times["ours"], "at most 200 ms")
        for peer in ("httpx", "anthropic")
    ]


def one_call(base_url: str) -> list[Row]:
    """A whole answer over a warm connection: encoded, sent, read, priced."""
    adapter, transport = get_adapter(MODEL), HttpTransport(base_url=base_url, api_key="none")
    messages = [Message.user(QUESTION)]

    def ours() -> object:
        context = RequestContext.for_model(MODEL)
        request = adapter.to_wire(messages, [], AdapterOptions(max_output_tokens=100, context=context))
        reply = adapter.from_wire_response(transport.send(adapter, request), context)
        assert reply.text.endswith("Paris.")
        return reply

    with httpx.Client() as client:

        def raw() -> object:
            reply = client.post(f"{base_url}/v1/messages", json=BODY, headers=HEADERS).json()
            assert reply["content"][0]["text"].endswith("Paris.")
            return reply

        contestants: dict[str, Callable[[], object]] = {"raw httpx + json": raw, "ours": ours}
        contestants |= _vendor_call(base_url)
        times = time_in_turns(contestants, rounds=25, repeat=20)
    transport.close()
    return [
        Row(f"one call, against {peer}", peer, times[peer], times["ours"], goal)
        for peer, goal in (("raw httpx + json", "at most 1.2x"), ("anthropic", "below"))
    ]


def _vendor_call(base_url: str) -> dict[str, Callable[[], object]]:
    import anthropic

    client = anthropic.Anthropic(base_url=base_url, api_key="none", max_retries=0)

    def vendor() -> object:
        reply = client.messages.create(
            model="claude-sonnet-4-6", max_tokens=100, messages=[{"role": "user", "content": QUESTION}]
        )
        assert reply.content[0].text.endswith("Paris.")  # type: ignore[union-attr]
        return reply

    return {"anthropic": vendor}


def one_delta(base_url: str) -> list[Row]:
    """A stream of 500 deltas that arrives at once: sync and async, with events and final message."""
    adapter = get_adapter(MODEL)
    messages = [Message.user(QUESTION)]
    streamed = BODY | {"stream": True}

    def prepare() -> tuple[Any, RequestContext]:
        context = RequestContext.for_model(MODEL)
        return adapter.to_wire(
            messages, [], AdapterOptions(max_output_tokens=100, stream=True, context=context)
        ), context

    transport = HttpTransport(base_url=base_url, api_key="none")
    client = httpx.Client()

    def ours() -> None:
        request, context = prepare()
        count = 0
        with transport.stream(adapter, request) as reply:
            for event in adapter.iter_stream(reply.chunks, context):
                count += event.type == "text_delta"
        assert count == DELTAS
        assert isinstance(event, MessageComplete)

    def raw() -> None:
        count = 0
        with client.stream("POST", f"{base_url}/v1/messages", json=streamed, headers=HEADERS) as reply:
            for line in reply.iter_lines():
                if line.startswith("data:"):
                    count += json.loads(line[5:])["type"] == "content_block_delta"
        assert count == DELTAS

    sync = time_in_turns({"raw": raw, "ours": ours}, rounds=15, repeat=2)
    transport.close()
    client.close()
    asynchronous = asyncio.run(_async_deltas(base_url, prepare, streamed))
    return [
        Row("one delta, burst, sync", "raw httpx + json", sync["raw"] / DELTAS, sync["ours"] / DELTAS, "at most 0.8x"),
        Row(
            "one delta, burst, async", "raw httpx + json",
            asynchronous["raw"] / DELTAS, asynchronous["ours"] / DELTAS, "at most 0.8x",
        ),
    ]  # fmt: skip


async def _async_deltas(
    base_url: str, prepare: Callable[[], tuple[Any, RequestContext]], streamed: dict[str, Any]
) -> dict[str, float]:
    import statistics
    import time

    adapter = get_adapter(MODEL)
    transport = AsyncHttpTransport(base_url=base_url, api_key="none")
    times: dict[str, list[float]] = {"raw": [], "ours": []}
    async with httpx.AsyncClient() as client:
        for round_ in range(16):
            started = time.process_time()
            count = 0
            async with client.stream("POST", f"{base_url}/v1/messages", json=streamed, headers=HEADERS) as reply:
                async for line in reply.aiter_lines():
                    if line.startswith("data:"):
                        count += json.loads(line[5:])["type"] == "content_block_delta"
            assert count == DELTAS
            middle = time.process_time()
            request, context = prepare()
            count = 0
            async with transport.stream(adapter, request) as answer:
                async for event in adapter.stream_response(answer.chunks, context):
                    count += event.type == "text_delta"
            assert count == DELTAS
            if round_:
                times["raw"].append((middle - started) * 1e6)
                times["ours"].append((time.process_time() - middle) * 1e6)
    await transport.close()
    return {name: statistics.median(values) for name, values in times.items()}


def long_history() -> list[Row]:
    """The body of a request with 2,000 messages of history: the first time, and the turn after it."""
    adapter = get_adapter(MODEL)
    history = [
        message
        for number in range(1000)
        for message in (Message.user(f"Question {number}? " * 8), Message.assistant(f"Answer {number}. " * 24))
    ]
    native = [{"role": str(message.role), "content": message.text} for message in history]
    growing = [*history, Message.user("And now?")]
    session = RequestContext.for_model(MODEL)

    def build(messages: list[Message], context: RequestContext) -> bytes:
        return adapter.to_wire(messages, [], AdapterOptions(max_output_tokens=100, context=context)).body

    def raw() -> bytes:
        return json.dumps({"model": "m", "max_tokens": 100, "messages": native}).encode()

    def first() -> bytes:
        return build([*history, Message.user("And now?")], RequestContext.for_model(MODEL))

    def again() -> bytes:
        growing.extend((Message.assistant("So."), Message.user("And then?")))
        return build(growing, session)

    assert len(json.loads(first())["messages"]) == 2001
    assert len(json.loads(build(growing, session))["messages"]) == 2001
    times = time_in_turns({"raw": raw, "first": first, "again": again}, rounds=9)
    return [
        Row("2,000 messages, first request", "json.dumps", times["raw"], times["first"], "at most 3x"),
        Row("2,000 messages, next turn", "json.dumps", times["raw"], times["again"], "at most 0.2x"),
    ]


def pricing() -> list[Row]:
    """The cost of one reply."""
    from genai_prices import Usage as TheirUsage
    from genai_prices import calc_price

    table, now = price_table(), datetime(2026, 11, 20, tzinfo=UTC)
    usage = TokenUsage(input_tokens=1000, output_tokens=200, cached_input_tokens=5000)
    theirs = TheirUsage(input_tokens=6000, cache_read_tokens=5000, output_tokens=200)

    def ours() -> object:
        return table.price(MODEL, usage, now).cost_usd

    def genai() -> object:
        return calc_price(theirs, "claude-sonnet-4-6", provider_id="anthropic", genai_request_timestamp=now).total_price

    assert ours() == genai()
    times = time_in_turns({"genai-prices": genai, "ours": ours}, rounds=15, repeat=200)
    return [Row("cost of one reply", "genai-prices", times["genai-prices"], times["ours"], "at most 20 us")]
