"""Sync and async transports of the model in this process, with a fake model: no runtime is needed here."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import (
    InvalidRequestError,
    MissingExtraError,
    NotFoundError,
    RequestError,
    RequestTimeoutError,
)
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message
from dragoman.local import AsyncLocalTransport, LocalTransport
from dragoman.local import transport as carrier
from dragoman.local.reply import Json, LocalRequestError
from dragoman.transport import transport_for

MODEL = "local:smollm2-135m"
ADAPTER = get_adapter(MODEL)
REQUEST = ADAPTER.to_wire([Message.user("Hi")], [], AdapterOptions())
END = {"type": "end", "stop": "end_turn", "usage": {"input_tokens": 2, "output_tokens": 3}}


class FakeModel:
    """A model that writes words until it is stopped, and records its requests."""

    def __init__(self, words: list[str], error: Exception | None = None, *, endless: bool = False) -> None:
        self.words = words
        self.error = error
        self.endless = endless
        self.bodies: list[Json] = []
        self.deadlines: list[float] = []
        self.started, self.stopped = threading.Event(), threading.Event()

    def run(
        self, body: Json, emit: Callable[[Json], None], should_continue: Callable[[], bool], deadline: float
    ) -> None:
        self.bodies.append(body)
        self.deadlines.append(deadline)
        self.started.set()
        if self.words:
            emit({"type": "start", "model": body["model"]})
        for word in self.words:
            emit({"type": "text", "text": word})
        while self.endless:
            if not should_continue():
                self.stopped.set()
                return
            emit({"type": "text", "text": "and "})
            time.sleep(0.001)
        if self.error is not None:
            raise self.error
        emit(END)


@pytest.fixture
def fake_model(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeModel]:
    """Puts a fake model in the place of every model."""

    def put(words: list[str], **fields: Any) -> FakeModel:
        model = FakeModel(words, **fields)
        monkeypatch.setattr(carrier, "get_model", lambda name, notify: model)
        return model

    return put


def chunks(request: WireRequest = REQUEST) -> list[bytes]:
    with LocalTransport().stream(ADAPTER, request) as reply:
        return list(reply.chunks)


async def async_chunks(request: WireRequest = REQUEST) -> list[bytes]:
    async with AsyncLocalTransport().stream(ADAPTER, request) as reply:
        return [chunk async for chunk in reply.chunks]


def test_the_whole_reply_and_both_streams_agree(fake_model: Callable[..., FakeModel]) -> None:
    """One line per chunk; the whole reply is the sum of its lines."""
    model = fake_model(["Hel", "lo"])
    reply = LocalTransport().send(ADAPTER, REQUEST)
    assert json.loads(reply.body)["content"] == [{"type": "text", "text": "Hello"}]
    assert (reply.status, reply.attempts[0].status) == (200, 200)
    assert asyncio.run(AsyncLocalTransport().send(ADAPTER, REQUEST)).body == reply.body
    lines = [json.loads(chunk) for chunk in chunks()]
    assert [line["type"] for line in lines] == ["start", "text", "text", "end"]
    assert asyncio.run(async_chunks()) == chunks()
    assert all(body == json.loads(REQUEST.body) for body in model.bodies)


def failing(error: Exception) -> list[Callable[[], Any]]:
    return [
        lambda: LocalTransport().send(ADAPTER, REQUEST),
        lambda: asyncio.run(AsyncLocalTransport().send(ADAPTER, REQUEST)),
        chunks,
        lambda: asyncio.run(async_chunks()),
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LocalRequestError("invalid_request", "no"), InvalidRequestError),
        (LocalRequestError("timeout", "no"), RequestTimeoutError),
        (NotFoundError("no"), NotFoundError),
        (MissingExtraError("no"), MissingExtraError),
    ],
)
def test_a_failure_before_the_first_word_is_raised(
    fake_model: Callable[..., FakeModel], error: Exception, kind: type[Exception]
) -> None:
    """The same class in all four ways; a provider error has its provider and one attempt."""
    fake_model([], error=error)
    for call in failing(error):
        with pytest.raises(kind) as caught:
            call()
        if isinstance(caught.value, InvalidRequestError):
            assert caught.value.provider == "local"
            assert len(caught.value.attempts) == 1


def test_a_failure_in_mid_stream_is_a_line_of_it(fake_model: Callable[..., FakeModel]) -> None:
    """The adapter's decoder then keeps what had arrived."""
    fake_model(["Hel"], error=LocalRequestError("timeout", "too late"))
    for lines in (chunks(), asyncio.run(async_chunks())):
        assert json.loads(lines[-1]) == {"type": "error", "error": {"type": "timeout", "message": "too late"}}
    events = list(ADAPTER.iter_stream(chunks(), RequestContext(model=MODEL)))
    assert [event.type for event in events] == ["message_start", "text_delta", "error"]


def test_a_bug_is_not_turned_into_a_provider_error(fake_model: Callable[..., FakeModel]) -> None:
    fake_model(["Hel"], error=ZeroDivisionError("oops"))
    with pytest.raises(ZeroDivisionError):
        chunks()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(async_chunks())


def test_leaving_a_stream_stops_the_model(fake_model: Callable[..., FakeModel]) -> None:
    """The context waits for it, so the next request finds the model free."""
    model = fake_model([], endless=True)
    with LocalTransport().stream(ADAPTER, REQUEST) as reply:
        next(reply.chunks)
    assert model.stopped.is_set()


def test_cancelling_a_task_stops_the_model(fake_model: Callable[..., FakeModel]) -> None:
    async def cancel_midway(call: Callable[[], Any], model: FakeModel) -> None:
        task = asyncio.create_task(call())
        assert await asyncio.to_thread(model.started.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    calls: list[Callable[[], Any]] = [async_chunks, lambda: AsyncLocalTransport().send(ADAPTER, REQUEST)]
    for call in calls:
        model = fake_model(["a"], endless=True)
        asyncio.run(cancel_midway(call, model))
        assert model.stopped.wait(60)


def test_the_loop_stays_free_while_the_model_writes(fake_model: Callable[..., FakeModel]) -> None:
    """Two streams in one loop take turns."""
    fake_model([], endless=True)

    async def first_lines(reply: AsyncIterator[bytes]) -> list[bytes]:
        return [await anext(reply) for _ in range(3)]

    async def both() -> tuple[list[bytes], list[bytes]]:
        transport = AsyncLocalTransport()
        async with transport.stream(ADAPTER, REQUEST) as one, transport.stream(ADAPTER, REQUEST) as two:
            return await asyncio.gather(first_lines(one.chunks), first_lines(two.chunks))

    assert [len(lines) for lines in asyncio.run(both())] == [3, 3]


def test_a_closed_loop_does_no_harm(fake_model: Callable[..., FakeModel], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may end in the middle of a stream: the thread has no receiver, and stops."""
    model = fake_model([], endless=True)
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    async def enter() -> Any:
        stream = AsyncLocalTransport().stream(ADAPTER, REQUEST)
        await stream.__aenter__()
        return stream

    left_open = asyncio.run(enter())
    assert model.stopped.wait(60)
    assert failed == []
    del left_open


def test_a_time_limit_is_passed_to_the_model_as_a_deadline(fake_model: Callable[..., FakeModel]) -> None:
    """A call without a limit has no deadline; an invalid one is refused."""
    model = fake_model(["a"])
    LocalTransport().send(ADAPTER, REQUEST)
    LocalTransport().send(ADAPTER, REQUEST, timeout=60)
    assert model.deadlines[0] == float("inf")
    assert model.deadlines[1] > time.monotonic()
    with pytest.raises(RequestError):
        LocalTransport().send(ADAPTER, REQUEST, timeout=0)


def test_the_adapter_names_this_transport() -> None:
    """Sessions find it by the adapter's attribute."""
    with transport_for(ADAPTER) as transport:  # type: ignore[attr-defined]
        assert isinstance(transport, LocalTransport)

    async def enter() -> bool:
        async with transport_for(ADAPTER, asynchronous=True) as transport:  # type: ignore[attr-defined]
            return isinstance(transport, AsyncLocalTransport)

    assert asyncio.run(enter())


def test_slow_steps_are_reported_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The output of a program stays clean; the log always has them."""
    with caplog.at_level("INFO", "dragoman.transport.local"):
        carrier.notify_terminal("loading")
        assert capsys.readouterr().err == ""
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        carrier.notify_terminal("loading")
    assert capsys.readouterr().err == "dragoman: loading …\n"
    assert [record.message for record in caplog.records] == ["loading", "loading"]
