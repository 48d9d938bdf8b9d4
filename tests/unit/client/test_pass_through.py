"""Requests that go through as bytes, without a session: retries, errors and usage are as in a session."""

import asyncio
import json
from contextlib import aclosing, suppress
from typing import Any

import pytest

from dragoman import AsyncClient, Budget, Store, get_adapter
from dragoman.answers import PassThrough
from dragoman.errors import (
    ConfigurationError,
    DragomanError,
    InvalidRequestError,
    MalformedReplyError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.messages import Usage
from dragoman.policy import PluginResult, Step, hook
from dragoman.testing.faults.server import FaultyServer, HttpReply, ServerAnswer, ServerScript, json_reply, sse_reply
from dragoman.transport import RetryPolicy, Timing
from tests.benchmarks.wires import WIRES

BODY = b'{"model": "gpt-5.2",  "messages": [{"role": "user", "content": "Where is Bern?"}]}'
WIRE = WIRES["chat"]
WHOLE = WIRE.text_reply("In Switzerland.")
FRAMES = list(WIRE.text_stream(list("abcdefgh")))


async def _no_wait(seconds: float) -> None:
    """Retry at once."""


def client_before(server: FaultyServer, **settings: Any) -> AsyncClient:
    provider = {"api_key": "k", "base_url": f"{server.url}/v1", "retry": RetryPolicy(max_retries=1),
                "timing": Timing(sleep_async=_no_wait)}  # fmt: skip
    return AsyncClient(providers={"openai-chat": provider}, **settings)


def pass_through(client: AsyncClient, *, stream: bool = False) -> PassThrough:
    return PassThrough(client.config, get_adapter("openai-chat:gpt-5.2"), BODY, stream=stream)


def ask(script: ServerScript | ServerAnswer, *, stream: bool = False) -> tuple[Any, PassThrough, list[bytes]]:
    """Return the bytes or the error, what has passed them, and the bodies that the server received."""

    async def run() -> Any:
        async with client_before(server) as client:
            through.append(pass_through(client, stream=stream))
            try:
                if not stream:
                    return (await through[0].send()).body
                return b"".join([data async for data in through[0].stream()])
            except DragomanError as error:
                return error

    through: list[PassThrough] = []
    with FaultyServer(script) as server:
        result = asyncio.run(run())
        bodies = [request.body for request in server.requests]
    return result, through[0], bodies


def test_a_whole_reply_goes_through_and_is_counted() -> None:
    body, through, sent = ask(json_reply(WHOLE, x_request_id="r1"))
    assert json.loads(body) == WHOLE
    assert sent == [BODY]
    assert through.headers["x-request-id"] == "r1"
    (usage,) = through.usages
    assert usage.total_tokens > 0
    assert usage.cost_usd is not None


def test_a_stream_goes_through_and_is_counted() -> None:
    body, through, sent = ask(sse_reply(*FRAMES), stream=True)
    assert (body, sent, through.complete) == (b"".join(FRAMES), [BODY], True)
    (usage,) = through.usages
    assert usage.total_tokens > 0
    assert usage.cost_usd is not None


@pytest.mark.parametrize("stream", [False, True])
def test_a_failure_is_retried(stream: bool) -> None:
    good = sse_reply(*FRAMES) if stream else json_reply(WHOLE)
    body, through, sent = ask([json_reply({}, status=503), good], stream=stream)
    assert not isinstance(body, DragomanError)
    assert sent == [BODY, BODY]
    assert len(through.usages) == 1


def test_an_error_with_the_status_of_a_success_is_one() -> None:
    overloaded = json_reply({"error": {"message": "no", "type": "server_error", "code": 503}})
    body, _, sent = ask([overloaded, json_reply(WHOLE)])
    assert (json.loads(body), len(sent)) == (WHOLE, 2)
    error, _, sent = ask(json_reply({"choices": []}))
    assert isinstance(error, MalformedReplyError)
    assert len(sent) == 1


def test_a_stream_without_content_is_asked_for_again() -> None:
    body, through, sent = ask([sse_reply(FRAMES[0]), sse_reply(*FRAMES)], stream=True)
    assert (body, len(sent), through.complete) == (b"".join(FRAMES), 2, True)


def test_a_stream_with_content_is_not() -> None:
    error, through, sent = ask(sse_reply(*FRAMES[:5]), stream=True)
    assert isinstance(error, StreamTruncatedError)
    assert error.partial is not None
    assert (len(sent), through.complete) == (1, False)


def test_errors_keep_their_class() -> None:
    for stream in (False, True):
        refused, _, _ = ask(
            json_reply({"error": {"message": "no", "type": "invalid_request_error"}}, 400), stream=stream
        )
        failed, _, _ = ask(json_reply({"error": {"message": "no", "type": "server_error"}}, 500), stream=stream)
        assert isinstance(refused, InvalidRequestError)
        assert isinstance(failed, ServerError)


def test_an_error_in_the_middle_comes_after_its_bytes() -> None:
    frame = b'data: {"error": {"message": "no more", "type": "server_error"}}\n\n'
    received = bytearray()

    async def run() -> None:
        async with client_before(server) as client:
            async for data in pass_through(client, stream=True).stream():
                received.extend(data)

    with FaultyServer(sse_reply(*FRAMES[:4], frame)) as server, pytest.raises(DragomanError, match="no more"):
        asyncio.run(run())
    assert received == b"".join([*FRAMES[:4], frame])


def test_a_stream_that_is_left_is_counted_as_a_lower_bound() -> None:
    """The counts stand at its start on Messages."""
    frames = list(WIRES["messages"].text_stream(list("abcdefgh")))

    async def run() -> PassThrough:
        provider = {"api_key": "k", "base_url": server.url}
        async with AsyncClient(providers={"anthropic": provider}) as client:
            through = PassThrough(client.config, get_adapter("anthropic:claude-sonnet-4-6"), BODY, stream=True)
            async with aclosing(through.stream()) as chunks:
                async for _ in chunks:
                    break
            return through

    with FaultyServer(HttpReply(headers={"content-type": "text/event-stream"}, steps=frames[:4])) as server:
        through = asyncio.run(run())
    (usage,) = through.usages
    assert usage.input_tokens > 0
    assert usage.cost_status == "partial"


@hook("cmf.llm_input")
def look(step: Step) -> PluginResult:
    return PluginResult()


def test_settings_that_read_conversations_need_a_session() -> None:
    adapter = get_adapter("openai-chat:gpt-5.2")
    for settings in ({"budgets": [Budget(tokens=1)]}, {"policy": [look]}, {"store": Store("sqlite://")}):
        config = AsyncClient(**settings).config
        assert not PassThrough.is_possible(config, adapter)
        with pytest.raises(ConfigurationError):
            PassThrough(config, adapter, BODY)
    assert PassThrough.is_possible(AsyncClient().config, adapter)


def test_a_closed_client_sends_nothing() -> None:
    client = AsyncClient()
    asyncio.run(client.close())
    with pytest.raises(ConfigurationError, match="closed"):
        pass_through(client)


class Ticket:
    """Notes how it ends, as the first call says."""

    def __init__(self, ends: list[Any]) -> None:
        self._ends = ends
        self._open = True

    def _end(self, *how: Any) -> None:
        if self._open:
            self._ends.append(how)
        self._open = False

    async def settle(self, usage: Usage | None) -> None:
        self._end("whole", usage and usage.total_tokens > 0)

    async def settle_failed(self, usage: Usage | None, *, began: bool, counts: bool = True) -> None:
        self._end("failed", began, counts)

    def release(self) -> None:
        self._end("released")


def settled(script: ServerScript | ServerAnswer, *, stream: bool, leaves: bool = False) -> list[Any]:
    """Return how the tickets of all attempts ended."""
    ends: list[Any] = []

    async def admit() -> Ticket:
        return Ticket(ends)

    async def run() -> None:
        async with client_before(server) as client:
            adapter = get_adapter("openai-chat:gpt-5.2")
            through = PassThrough(client.config, adapter, BODY, stream=stream, admit=admit)
            with suppress(DragomanError):
                if not stream:
                    await through.send()
                    return
                async with aclosing(through.stream()) as chunks:
                    async for _ in chunks:
                        if leaves:
                            break

    with FaultyServer(script) as server:
        asyncio.run(run())
    return ends


@pytest.mark.parametrize("stream", [False, True])
def test_each_attempt_is_admitted_and_settled(stream: bool) -> None:
    good = sse_reply(*FRAMES) if stream else json_reply(WHOLE)
    assert settled([json_reply({}, status=503), good], stream=stream) == [("failed", False, True), ("whole", True)]
    refused = json_reply({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
    assert settled(refused, stream=stream) == [("failed", False, True)]


def test_a_reply_that_the_provider_broke_is_no_request_of_the_caller() -> None:
    assert settled(sse_reply(*FRAMES[:5]), stream=True) == [("failed", True, False)]
    assert settled([sse_reply(FRAMES[0])] * 2, stream=True) == [("failed", False, False)] * 2
    assert settled(json_reply({"choices": []}), stream=False) == [("failed", False, False)]


def test_a_stream_that_the_caller_leaves_is_one() -> None:
    begun = HttpReply(headers={"content-type": "text/event-stream"}, steps=FRAMES[:4])
    assert settled(begun, stream=True, leaves=True) == [("failed", True, True)]


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_attempt_is_not_sent(stream: bool) -> None:
    async def refuse() -> Ticket:
        raise InvalidRequestError("no")

    async def run() -> None:
        async with client_before(server) as client:
            adapter = get_adapter("openai-chat:gpt-5.2")
            through = PassThrough(client.config, adapter, BODY, stream=stream, admit=refuse)
            await (anext(through.stream()) if stream else through.send())

    with FaultyServer(json_reply(WHOLE)) as server:
        with pytest.raises(InvalidRequestError):
            asyncio.run(run())
        assert server.requests == []
