"""Requests without a session, as bytes or in canonical form: retries, errors, losses and usage are as in a session."""

import asyncio
import json
from contextlib import aclosing, suppress
from typing import Any

import pytest

from dragoman import (
    AdapterOptions,
    AsyncClient,
    Budget,
    Message,
    RequestContext,
    Store,
    WireRequest,
    get_adapter,
)
from dragoman.answers import ProviderRequest
from dragoman.errors import (
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    InvalidRequestError,
    MalformedReplyError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.events import MessageComplete, StreamEvent, TextDelta
from dragoman.limits import LimitReachedError, MaxUsage, MeasureUsage, Reservation
from dragoman.limits.reservation import usage_of
from dragoman.messages import TokenUsage
from dragoman.policy import PluginResult, Step, hook
from dragoman.session.effects import Perform, SendOutcome
from dragoman.testing.faults.server import (
    FaultyServer,
    HttpReply,
    Pause,
    ServerAnswer,
    ServerScript,
    json_reply,
    sse_reply,
)
from dragoman.transport import RetryPolicy, Timing
from tests.benchmarks.wires import WIRES

BODY = b'{"model": "gpt-5.2",  "messages": [{"role": "user", "content": "Where is Bern?"}]}'
ADAPTER = get_adapter("openai-chat:gpt-5.2")
HISTORY = [Message.user("Where is Bern?")]
WIRE = WIRES["chat"]
WHOLE = WIRE.text_reply("In Switzerland.")
FRAMES = list(WIRE.text_stream(list("abcdefgh")))


async def _no_wait(seconds: float) -> None:
    """Retry at once."""


def client_before(server: FaultyServer, **settings: Any) -> AsyncClient:
    provider = {"api_key": "k", "base_url": f"{server.url}/v1", "retry": RetryPolicy(max_retries=1),
                "timing": Timing(sleep_async=_no_wait)}  # fmt: skip
    return AsyncClient(providers={"openai-chat": provider}, **settings)


def pass_through(client: AsyncClient, *, stream: bool = False) -> ProviderRequest:
    return ProviderRequest.of_bytes(client.config, ADAPTER, BODY, stream=stream)


def ask(script: ServerScript | ServerAnswer, *, stream: bool = False) -> tuple[Any, ProviderRequest, list[bytes]]:
    """Return the bytes or the error, what has passed them, and the bodies that the server received."""

    async def run() -> Any:
        async with client_before(server) as client:
            through.append(pass_through(client, stream=stream))
            try:
                if not stream:
                    await through[0].send()
                    return through[0].response and through[0].response.body
                return b"".join([data async for data in through[0].stream()])
            except DragomanError as error:
                return error

    through: list[ProviderRequest] = []
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

    async def run() -> ProviderRequest:
        provider = {"api_key": "k", "base_url": server.url}
        async with AsyncClient(providers={"anthropic": provider}) as client:
            through = ProviderRequest.of_bytes(
                client.config, get_adapter("anthropic:claude-sonnet-4-6"), BODY, stream=True
            )
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
    for settings in ({"budgets": [Budget(tokens=1)]}, {"policy": [look]}, {"store": Store("sqlite://")}):
        config = AsyncClient(**settings).config
        assert not ProviderRequest.is_possible(config, ADAPTER)
        with pytest.raises(ConfigurationError):
            ProviderRequest.of_bytes(config, ADAPTER, BODY)
    assert ProviderRequest.is_possible(AsyncClient().config, ADAPTER)


def test_a_closed_client_sends_nothing() -> None:
    client = AsyncClient()
    asyncio.run(client.close())
    with pytest.raises(ConfigurationError, match="closed"):
        pass_through(client)


class Watch(Reservation):
    """A governor whose reservations note how their attempts end: the class of the outcome, the tokens that it reports,
    and whether anything was sent. ``most`` is the number of text events that a stream may have."""

    def __init__(self, most: int | None = None) -> None:
        self.ends: list[Any] = []
        self.measured: list[MaxUsage] = []
        self._left = most
        if most is not None:
            self.stage = self._count

    def reserve(self, measure: MeasureUsage) -> Reservation:
        self.measured.append(measure())
        return self

    def settle(self, outcome: SendOutcome) -> None:
        usage = usage_of(outcome)
        sent = getattr(getattr(outcome, "error", outcome), "sent", None)
        self.ends.append((type(outcome).__name__, usage is not None and usage.total_tokens > 0, sent))

    def _count(self, event: StreamEvent) -> list[StreamEvent]:
        if isinstance(event, TextDelta) and self._left is not None:
            if not self._left:
                raise BudgetExceededError("key", "tokens", 1, 1, 1)
            self._left -= 1
        return [event]


class Refuse:
    def reserve(self, measure: MeasureUsage) -> Reservation:
        raise InvalidRequestError("no")


USE = MaxUsage("openai-chat:gpt-5.2", TokenUsage(input_tokens=10))


def governed(
    script: ServerScript | ServerAnswer, watch: Any, *, stream: bool = False, leaves: bool = False
) -> tuple[bytes, type[BaseException] | None, int]:
    """Return the bytes that arrived, the class of the error, and how often it was asked."""
    received = bytearray()

    async def run() -> None:
        async with client_before(server) as client:
            through = ProviderRequest.of_bytes(
                client.config, ADAPTER, BODY, stream=stream, governors=[watch], measure=lambda: USE
            )
            if not stream:
                await through.send()
                return
            async with aclosing(through.stream()) as chunks:
                async for data in chunks:
                    received.extend(data)
                    if leaves:
                        break

    with FaultyServer(script) as server:
        try:
            asyncio.run(run())
        except DragomanError as error:
            return bytes(received), type(error), len(server.requests)
        return bytes(received), None, len(server.requests)


@pytest.mark.parametrize("stream", [False, True])
def test_each_attempt_is_governed_and_settled(stream: bool) -> None:
    good = sse_reply(*FRAMES) if stream else json_reply(WHOLE)
    watch = Watch()
    governed([json_reply({}, status=503), good], watch, stream=stream)
    assert watch.ends == [("Failed", False, True), ("Replied", True, None)]
    assert watch.measured == [USE] * 2
    refused = Watch()
    governed(json_reply({"error": {"message": "no", "type": "invalid_request_error"}}, 400), refused, stream=stream)
    assert refused.ends == [("Failed", False, True)]


def test_a_reply_that_the_provider_broke_is_settled_as_broken() -> None:
    for script, stream, times in (
        (sse_reply(*FRAMES[:5]), True, 1),
        ([sse_reply(FRAMES[0])] * 2, True, 2),
        (json_reply({"choices": []}), False, 1),
    ):
        watch = Watch()
        governed(script, watch, stream=stream)
        assert watch.ends == [("Broken", False, True)] * times


def test_a_stream_that_the_caller_leaves_is_abandoned() -> None:
    watch = Watch()
    begun = HttpReply(headers={"content-type": "text/event-stream"}, steps=FRAMES[:4])
    governed(begun, watch, stream=True, leaves=True)
    assert watch.ends == [("Abandoned", False, True)]


def test_a_caller_who_leaves_at_the_bytes_of_an_error_settles_a_broken_reply() -> None:
    frame = b'data: {"error": {"message": "no more", "type": "server_error"}}\n\n'
    watch = Watch()
    received, error, _ = governed(sse_reply(b"".join([*FRAMES[:4], frame])), watch, stream=True, leaves=True)
    assert (b"no more" in received, error) == (True, None)
    assert [name for name, *_ in watch.ends] == ["Broken"]


def test_a_stage_ends_a_stream_behind_what_it_has_let_pass() -> None:
    """What arrived together with it passes too: bytes are not taken apart."""
    watch = Watch(most=3)
    script = HttpReply(headers={"content-type": "text/event-stream"}, steps=_apart(FRAMES))
    received, error, asked = governed(script, watch, stream=True)
    assert (error, asked, watch.ends) == (BudgetExceededError, 1, [("Broken", False, False)])
    assert b'"content":"a"' in received.replace(b" ", b"")
    assert b'"content":"h"' not in received.replace(b" ", b"")


def _apart(frames: list[bytes]) -> list[Any]:
    return [step for frame in frames for step in (frame, Pause(0.05))]


def test_a_refusal_before_a_retry_is_raised_at_once() -> None:
    """The wait of the attempt before it does not count for it."""

    class Once(Watch):
        def reserve(self, measure: MeasureUsage) -> Reservation:
            if self.measured:
                raise LimitReachedError("no room")
            return super().reserve(measure)

    watch = Once()
    _, error, asked = governed(json_reply({}, status=503), watch)
    assert (error, asked, watch.ends) == (LimitReachedError, 1, [("Failed", False, True)])


@pytest.mark.parametrize("stream", [False, True])
def test_a_refused_attempt_is_not_sent(stream: bool) -> None:
    assert governed(json_reply(WHOLE), Refuse(), stream=stream) == (b"", InvalidRequestError, 0)


def test_governors_need_a_measure() -> None:
    with pytest.raises(ConfigurationError, match="measure"):
        ProviderRequest.of_bytes(AsyncClient().config, ADAPTER, BODY, governors=[Watch()])


# -- In canonical form


def encode(context: RequestContext) -> WireRequest:
    return ADAPTER.to_wire(HISTORY, [], AdapterOptions(top_k=3, context=context))


def ask_canonically(script: ServerScript | ServerAnswer, **more: Any) -> tuple[Any, ProviderRequest, int]:
    """Return the message or the error, the request, and how often it was sent."""

    async def run() -> Any:
        async with client_before(server) as client:
            made.append(ProviderRequest(client.config, ADAPTER, more.pop("encode", encode), **more))
            try:
                return await made[0].send()
            except DragomanError as error:
                return error

    made: list[ProviderRequest] = []
    with FaultyServer(script) as server:
        result = asyncio.run(run())
        return result, made[0], len(server.requests)


def test_a_reply_is_read_and_counted() -> None:
    message, request, sent = ask_canonically(json_reply(WHOLE, x_request_id="r1"), session_id="sess_1")
    assert (message.text, message.session_id, sent) == ("In Switzerland.", "sess_1", 1)
    assert request.headers["x-request-id"] == "r1"
    assert request.usages == [message.usage]
    assert message.usage is not None
    assert message.usage.cost_usd is not None
    assert message.usage.latency_ms is not None


def test_each_loss_is_named_once() -> None:
    message, request, sent = ask_canonically([json_reply({}, status=503), json_reply(WHOLE)])
    assert (message.text, sent) == ("In Switzerland.", 2)
    (loss,) = request.losses
    assert loss.reason.startswith("top_k")


def test_a_broken_reply_is_an_error() -> None:
    error, request, sent = ask_canonically(json_reply({"choices": []}))
    assert isinstance(error, MalformedReplyError)
    assert (sent, request.usages) == (1, [])


def test_the_events_of_a_stream_end_with_the_message() -> None:
    async def run() -> list[StreamEvent]:
        async with client_before(server) as client:
            request = ProviderRequest(client.config, ADAPTER, encode_stream)
            return [event async for batch in request.batches() for event in batch]

    def encode_stream(context: RequestContext) -> WireRequest:
        return ADAPTER.to_wire(HISTORY, [], AdapterOptions(stream=True, context=context))

    with FaultyServer(sse_reply(*FRAMES)) as server:
        events = asyncio.run(run())
    assert isinstance(events[-1], MessageComplete)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == events[-1].message.text


def test_what_cannot_be_encoded_is_not_sent() -> None:
    def refuse(context: RequestContext) -> WireRequest:
        raise InvalidRequestError("no")

    watch = Watch()
    error, _, sent = ask_canonically(json_reply(WHOLE), encode=refuse, governors=[watch], measure=lambda: USE)
    assert isinstance(error, InvalidRequestError)
    assert (sent, watch.ends) == (0, [("Failed", False, False)])


@pytest.mark.parametrize("reserving", [False, True])
def test_a_request_that_is_cancelled_before_it_was_sent_is_settled_as_such(reserving: bool) -> None:
    watch = Watch()

    class Slow:
        def reserve(self, measure: MeasureUsage) -> Perform:
            return Perform(asyncio.Event().wait, asyncio.Event().wait)

    async def run() -> None:
        async with client_before(server) as client:
            request = ProviderRequest.of_bytes(
                client.config, ADAPTER, BODY, governors=[watch, *([Slow()] * reserving)], measure=lambda: USE
            )
            task = asyncio.ensure_future(request.send())
            while not (watch.measured if reserving else server.requests):
                await asyncio.sleep(0.01)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    with FaultyServer(HttpReply(before=Pause(5))) as server:
        asyncio.run(run())
    assert watch.ends == [("Abandoned", False, not reserving)]
