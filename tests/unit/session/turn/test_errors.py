"""Failures: the error that the caller gets, what is retried, and what the history holds afterwards."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import (
    AuthenticationError,
    ConfigurationError,
    MalformedReplyError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import MessageStatus
from dragoman.session import tool
from tests.unit.session.drivers import OLLAMA, Body, Driver, FakeTime, Wire, texts, types
from tests.unit.session.handwritten_replies import (
    Call,
    Reply,
    Thought,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)

OK = handwritten_anthropic("All is well.")
OPENING, PING, *_ = OK.frames
WORDS = OK.frames[3:5]
"""The first two deltas of the text."""


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


ROUND = handwritten_anthropic(Call("t1", "look", {"at": "it"}))


def failing(status: int, kind: str) -> httpx.Response:
    return httpx.Response(status, json={"type": "error", "error": {"type": kind, "message": "no"}})


FAILURES: list[tuple[str, Callable[[], Any], type[ProviderError]]] = [
    ("ask", lambda: failing(401, "authentication_error"), AuthenticationError),
    ("stream", lambda: failing(401, "authentication_error"), AuthenticationError),
    ("ask", lambda: httpx.Response(200, text="<html>no</html>"), MalformedReplyError),
    ("ask", lambda: httpx.Response(200, json={"oops": 1}), MalformedReplyError),
    ("stream", lambda: [b"data: <html>no</html>\n\n"], MalformedReplyError),
]


@pytest.mark.parametrize(("mode", "failure", "kind"), FAILURES)
def test_a_failed_first_request_leaves_no_trace(
    driver: Driver, mode: str, failure: Callable[[], Any], kind: type[ProviderError]
) -> None:
    """The history is as before, and asking again works."""
    wire = Wire([OK, failure(), OK])
    session = driver.session({"anthropic": wire})
    ask = driver.stream if mode == "stream" else driver.ask
    driver.ask(session, "Hi")
    before = session.messages
    with pytest.raises(kind):
        ask(session, "How?")
    assert session.messages == before
    ask(session, "How?")
    assert [role for role, _ in texts(session)] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_later_failures_keep_the_rounds_before(driver: Driver, streamed: bool) -> None:
    """A round whose tools have run is kept, and ask(None) continues after it."""
    wire = Wire([ROUND, failing(401, "authentication_error"), OK])
    session = driver.session({"anthropic": wire}, tools=[look])
    with pytest.raises(AuthenticationError):
        (driver.stream if streamed else driver.ask)(session, "Look.")
    assert texts(session) == [("user", "Look."), ("assistant", "look()"), ("tool", "it: fine")]
    assert driver.ask(session, None).text == "All is well."
    assert len(wire.requests[2]["messages"]) == 3


@pytest.mark.parametrize(
    "frames",
    [
        [OPENING, handwritten_overloaded()],
        [OPENING, PING, handwritten_overloaded()],
        [handwritten_overloaded()],
        [OPENING],
        [],
    ],
    ids=["error", "error after ping", "error alone", "cut", "empty"],
)
def test_a_failure_before_the_first_visible_event_is_retried(driver: Driver, frames: list[bytes]) -> None:
    """The caller sees one whole reply, and one message_start."""
    fake_time = FakeTime()
    wire = Wire([frames, OK])
    session = driver.session({"anthropic": wire}, fake_time=fake_time)
    events = driver.stream(session, "Hi")
    assert types(events) == ["message_start", "usage_update", "text_delta", "usage_update", "message_complete"]
    assert fake_time.slept == [1.0]
    assert len(wire.requests) == 2
    assert texts(session) == [("user", "Hi"), ("assistant", "All is well.")]
    assert all(body.closed for body in wire.bodies)


def test_retries_end(driver: Driver) -> None:
    """As many as the policy allows, each after a longer wait; then the error is the caller's."""
    fake_time = FakeTime()
    wire = Wire([[OPENING, handwritten_overloaded()]] * 3)
    session = driver.session({"anthropic": wire}, fake_time=fake_time)
    with pytest.raises(OverloadedError):
        driver.stream(session, "Hi")
    assert fake_time.slept == [1.0, 2.0]
    assert session.messages == ()


def test_a_permanent_error_is_not_retried(driver: Driver) -> None:
    """An error that a retry cannot fix is raised at once, even before the first event."""
    fake_time = FakeTime()
    frames = [
        OPENING,
        b'event: error\ndata: {"type":"error","error":{"type":"authentication_error","message":"no"}}\n\n',
    ]
    session = driver.session({"anthropic": Wire([frames])}, fake_time=fake_time)
    with pytest.raises(AuthenticationError):
        driver.stream(session, "Hi")
    assert fake_time.slept == []


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_an_error_under_status_200_is_retried(driver: Driver, streamed: bool) -> None:
    """Ollama says so with an error object, whole or as a line."""
    broken = httpx.Response(200, json={"error": "the runner has stopped"})
    wire = Wire([broken, handwritten_ollama("Back.")])
    session = driver.session({"ollama": wire}, OLLAMA)
    (driver.stream if streamed else driver.ask)(session, "Hi")
    assert texts(session) == [("user", "Hi"), ("assistant", "Back.")]


BROKEN: list[tuple[str, Callable[[], Any], type[ProviderError]]] = [
    ("cut", lambda: [OPENING, OK.frames[2], *WORDS], StreamTruncatedError),
    ("cut in a frame", lambda: [OPENING, OK.frames[2], *WORDS, OK.frames[5][:20]], StreamTruncatedError),
    ("error event", lambda: [OPENING, OK.frames[2], *WORDS, handwritten_overloaded()], OverloadedError),
    ("garbage", lambda: [OPENING, OK.frames[2], *WORDS, b"data: {nonsense\n\n"], MalformedReplyError),
    ("reset", lambda: Body([OPENING, OK.frames[2], *WORDS], httpx.ReadError("reset")), NetworkError),
]  # fmt: skip


@pytest.mark.parametrize(("name", "frames", "kind"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_a_failure_after_visible_events_is_raised_with_the_partial(
    driver: Driver, name: str, frames: Callable[[], Any], kind: type[ProviderError]
) -> None:
    """There is no retry, which would repeat the events. The error has the partial reply; the history does not."""
    fake_time = FakeTime()
    wire = Wire([frames(), OK])
    session = driver.session({"anthropic": wire}, fake_time=fake_time)
    with pytest.raises(kind) as caught:
        driver.stream(session, "Hi")
    assert caught.value.partial.text == "All is w"
    assert caught.value.partial.metadata.status is MessageStatus.ERROR
    assert len(wire.requests) == 1
    assert fake_time.slept == []
    assert session.messages == ()
    assert all(body.closed for body in wire.bodies)


def test_a_truncated_call_is_never_run(driver: Driver) -> None:
    """The partial message keeps its arguments unchanged."""
    ran: list[str] = []

    def remove(path: str) -> None:
        """Remove."""
        ran.append(path)

    whole = handwritten_anthropic(Call("t1", "remove", {"path": "/tmp/a"}))
    session = driver.session({"anthropic": Wire([whole.frames[:5]])}, tools=[remove])
    with pytest.raises(StreamTruncatedError) as caught:
        driver.stream(session, "Go")
    (call,) = caught.value.partial.tool_uses
    assert (call.input, call.raw_input) == ({}, '{"path":')
    assert not ran


LONG = handwritten_anthropic(Thought("Hm, let me see."), "é你好", Call("t1", "look", {"at": "Größe\u2028"}))


@pytest.mark.exhaustive
@pytest.mark.parametrize("reply", [LONG, handwritten_ollama(Thought("Hm."), "é你好")], ids=["anthropic", "ollama"])
def test_a_stream_cut_anywhere_is_whole_or_an_error(reply: Reply, driver: Driver) -> None:
    """A cut gives the complete message or StreamTruncatedError, and never less than the first as success."""
    provider = "anthropic" if reply is LONG else "ollama"
    model = "anthropic:claude-opus-5-5" if reply is LONG else OLLAMA
    whole = b"".join(reply.frames)
    cuts = [*range(0, len(whole), 7), len(whole)]
    outcomes = []
    for cut in cuts:
        session = driver.session({provider: Wire([[whole[:cut]]] * 3)}, model)
        try:
            outcomes.append(driver.stream(session, "Hi", until="message_complete")[-1].type)
        except StreamTruncatedError:
            outcomes.append("truncated")
    assert outcomes[-1] == "message_complete"
    assert set(outcomes[:-1]) == {"truncated"}


def test_a_server_error_of_a_whole_reply_is_retried_by_the_transport_alone(driver: Driver) -> None:
    """Two retry loops would multiply: three requests in all, not nine."""
    wire = Wire([failing(500, "api_error")] * 9)
    session = driver.session({"anthropic": wire})
    for ask in (driver.ask, driver.stream):
        wire.requests.clear()
        with pytest.raises(ServerError):
            ask(session, "Hi")
        assert len(wire.requests) == 3


def test_other_exceptions_are_raised_unchanged(driver: Driver) -> None:
    """There is no retry, because the error would occur again."""

    def exhausted() -> str:
        raise ConfigurationError("no ids are left")

    wire = Wire([ROUND])
    session = driver.session({"anthropic": wire}, tools=[look], tool_ids=ToolIdMap(exhausted))
    with pytest.raises(ConfigurationError, match="no ids are left"):
        driver.stream(session, "Hi")
    assert len(wire.requests) == 1
    assert session.messages == ()


GOOGLE = "google:gemini-2.5-flash"
GREETING = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}


def busy(seconds: str) -> httpx.Response:
    """A refusal of Google's, which names the wait in its body."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}]
    body = {"error": {"code": 429, "message": "busy", "status": "RESOURCE_EXHAUSTED", "details": details}}
    return httpx.Response(429, json=body)


def test_a_wait_in_a_body_is_respected(driver: Driver) -> None:
    """A wait in a body is respected, as one in a header; a wait of over a minute ends the attempts."""
    fake_time = FakeTime()
    wire = Wire([busy("7s"), httpx.Response(200, json=GREETING), busy("90s")])
    session = driver.session({"google": wire}, GOOGLE, fake_time=fake_time)
    assert driver.ask(session, "Hi").text == "Hi"
    assert fake_time.slept == [7.0]
    with pytest.raises(RateLimitError) as caught:
        driver.ask(session, "Hi")
    assert caught.value.retry_after == 90
    assert (len(wire.requests), fake_time.slept) == (3, [7.0])


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_a_wait_of_a_reply_that_reports_an_error_is_respected(driver: Driver, streamed: bool) -> None:
    """Its status is a success; the header counts all the same."""
    fake_time = FakeTime()
    refused = {"error": {"code": 429, "message": "busy"}}
    headers = {"retry-after": "4", "x-request-id": "req_9"}
    if streamed:
        body, kind = b"data: %s\n\n" % json.dumps(refused).encode(), "text/event-stream"
    else:
        body, kind = json.dumps(refused).encode(), "application/json"
    refusals = [httpx.Response(200, content=body, headers={**headers, "content-type": kind}) for _ in range(3)]
    session = driver.session({"openrouter": Wire(refusals)}, "openrouter:a/b", fake_time=fake_time)
    with pytest.raises(RateLimitError) as caught:
        (driver.stream if streamed else driver.ask)(session, "Hi")
    assert fake_time.slept == [4.0, 4.0]
    assert (caught.value.request_id, caught.value.retry_after) == ("req_9", 4.0)
    assert [attempt.status for attempt in caught.value.attempts] == [200, 200, 200]


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_an_unreadable_reply_says_which_it_was(driver: Driver, streamed: bool) -> None:
    """Support needs the provider's id of the request: the reply was billed."""
    headers = {"request-id": "req_9", "content-type": "text/event-stream" if streamed else "application/json"}
    replies = [httpx.Response(200, content=b"{oops", headers=headers) for _ in range(3)]
    session = driver.session({"anthropic": Wire(replies)})
    with pytest.raises(ProviderError, match=r"^anthropic: .*req_9") as caught:
        (driver.stream if streamed else driver.ask)(session, "Hi")
    assert (caught.value.status, caught.value.request_id) == (None if streamed else 200, "req_9")
    assert {attempt.status for attempt in caught.value.attempts} == {200}
