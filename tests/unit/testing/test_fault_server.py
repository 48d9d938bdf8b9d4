"""The faulty server for users: what arrives on the wire, read by a plain socket and by an HTTP client."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping

import httpcore
import httpx
import pytest

from dragoman import Session
from dragoman.adapter.errors import ConfigurationError, NetworkError, RequestTimeoutError, StreamTruncatedError
from dragoman.bundled import bundled_path
from dragoman.testing import Cassette, faults
from dragoman.testing.cassettes.file import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.faults import Framing
from dragoman.testing.faults.server import (
    HANG_UP,
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReceivedRequest,
    ServerAnswer,
    json_reply,
    recorded_reply,
    sse_reply,
)
from dragoman.transport import RetryPolicy
from tests.unit.testing.sample_streams import BODIES, CASES

TAPE = bundled_path("cassettes") / "llama-server" / "answers" / "anthropic-stream.yaml"
REQUEST = b"POST /chat?x=1 HTTP/1.1\r\nHost: here\r\nX-Case: One\r\nContent-Length: 2\r\n\r\n{}"
PATIENCE = 0.2
"""Seconds that a client waits for a server that stays silent for good."""
FOREVER = 60
"""Seconds that a busy machine may need; nothing waits so long."""


def exchange(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Exchange:
    return Exchange(RecordedRequest("POST", "/chat"), RecordedResponse(status, body, headers or {}))


def send_raw(server: FaultyServer, request: bytes = REQUEST) -> Iterator[bytes]:
    """What a plain socket reads, until the server ends the connection or stays silent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=FOREVER) as client:
        client.sendall(request)
        while piece := client.recv(65536):
            yield piece


@pytest.mark.parametrize(("framing", "plan"), CASES, ids=str)
def test_a_client_reads_what_the_plan_leaves(framing: Framing, plan: faults.Plan) -> None:
    """Every plan on every framing: the same bytes as below a transport, then a reset, silence or the end."""
    body, arrived, broken = BODIES[framing], bytearray(), None
    left, due = bytearray(), None
    try:
        for chunk in plan.apply(body):
            left += chunk
    except (ConnectionResetError, TimeoutError) as error:
        due = {ConnectionResetError: httpx.ReadError, TimeoutError: httpx.ReadTimeout}[type(error)]
    with FaultyServer(recorded_reply(body, plan)) as server, httpx.Client(timeout=FOREVER) as client:
        try:
            with client.stream("POST", server.url + "/chat", content=b"{}") as response:
                assert response.status_code == 200
                chunks = response.iter_raw()  # kept: the end of the iterator would close the connection
                for chunk in chunks:
                    arrived += chunk
                    if due is httpx.ReadTimeout and len(arrived) >= len(left):
                        break
                if due is httpx.ReadTimeout:
                    response.extensions["network_stream"].read(1, timeout=PATIENCE)
        except httpx.ReadError:
            broken = httpx.ReadError
        except httpcore.ReadTimeout:
            broken = httpx.ReadTimeout
    assert (arrived, broken) == (left, due)


def test_a_reset_is_a_reset_on_the_wire() -> None:
    """The socket raises after all bytes before it, instead of an orderly end."""
    plan = faults.Cut(4, reset=True)
    with FaultyServer(recorded_reply(b"{}\n{}\n", plan)) as server:
        received: list[bytes] = []
        with pytest.raises(ConnectionResetError):
            received.extend(send_raw(server))
    assert b"".join(received).endswith(b"4\r\n{}\n{\r\n")


def test_silence_lasts_until_the_client_leaves() -> None:
    """The connection stays open until the client closes it."""
    with FaultyServer(sse_reply(b"data: 1\n\n", STALL)) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=FOREVER) as client:
            client.sendall(REQUEST)
            arrived = b""
            while not arrived.endswith(b"data: 1\n\n\r\n"):
                arrived += client.recv(65536)
            client.settimeout(PATIENCE)
            with pytest.raises(TimeoutError):
                client.recv(1)
            assert server.open_connections == 1
        assert server.wait_until_closed() == 0
        assert server.connections == 1


@pytest.mark.parametrize("before", [RESET, HANG_UP], ids=str)
def test_a_connection_may_end_before_the_status_line(before: object) -> None:
    with FaultyServer(HttpReply(before=before)) as server, pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):  # type: ignore[arg-type]
        httpx.post(server.url, content=b"{}")


def test_a_length_may_be_wrong() -> None:
    """More is announced than sent."""
    with (
        FaultyServer(HttpReply(body=b"short", length=99)) as server,
        pytest.raises(httpx.RemoteProtocolError, match="99"),
    ):
        httpx.post(server.url, content=b"{}")


def test_a_pause_and_raw_bytes() -> None:
    """Also for other clients: an answer in pieces, and one that is not HTTP."""
    with FaultyServer(
        [sse_reply(b"data: 1\n\n", Pause(0.01), b"", b"data: 2\n\n"), HttpReply(raw=b"oops\r\n")]
    ) as server:
        for read in (b"data: 1\n\ndata: 2\n\n", None):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=FOREVER)
            try:
                connection.request("POST", "/", b"{}")
                if read is not None:
                    assert connection.getresponse().read() == read
                else:
                    with pytest.raises(http.client.BadStatusLine):
                        connection.getresponse()
            finally:
                connection.close()


def test_requests_are_recorded_as_they_came() -> None:
    """Requests are recorded as they came: head and body to the byte, on which connection, and on 127.0.0.1 only."""
    with FaultyServer(HttpReply(body=b"yes")) as server:
        assert server.url == f"http://127.0.0.1:{server.port}"
        pieces = send_raw(server, REQUEST + REQUEST)
        assert next(pieces).startswith(b"HTTP/1.1 200 ")
        pieces.close()  # type: ignore[attr-defined]
        assert server.wait_until_closed() == 0
    first, second = server.requests
    assert first == second
    assert (first.method, first.path, first.body, first.connection) == ("POST", "/chat?x=1", b"{}", 0)
    assert first.headers == {"host": "here", "x-case": "One", "content-length": "2"}
    assert first.head == REQUEST.removesuffix(b"\r\n{}")


def test_a_chunked_request_is_read() -> None:
    """Clients send bodies of unknown length that way."""
    with FaultyServer(HttpReply(body=b"yes")) as server:
        assert httpx.post(server.url, content=iter([b'{"a":', b"1}"])).content == b"yes"
        assert httpx.post(server.url, content=b"next").content == b"yes"
    assert [request.body for request in server.requests] == [b'{"a":1}', b"next"]


@pytest.mark.parametrize("header", [b"content-length: ten", b"transfer-encoding: chunked"])
def test_a_malformed_request_ends_its_connection(header: bytes) -> None:
    """The next one is served."""
    with FaultyServer(HttpReply(body=b"yes")) as server:
        assert list(send_raw(server, b"POST / HTTP/1.1\r\n" + header + b"\r\n\r\nxyz\r\n")) in ([], [b""])
        assert httpx.post(server.url, content=b"{}").content == b"yes"
    assert len(server.requests) == 1


def test_refusals_come_first() -> None:
    """Then the recorded reply, any number of times."""
    script: list[ServerAnswer] = [
        faults.status_then_success(429, {"retry-after": "0"}, times=2),
        exchange(b'{"n": 1}', 201, {"X-Case": "a", "Content-Encoding": "gzip"}),
    ]
    with FaultyServer(script) as server:
        replies = [httpx.post(server.url, content=b"{}") for _ in range(4)]
    assert [reply.status_code for reply in replies] == [429, 429, 201, 201]
    assert replies[0].headers["retry-after"] == "0"
    assert (replies[2].json(), replies[2].headers["x-case"]) == ({"n": 1}, "a")
    assert "content-encoding" not in replies[2].headers


def test_a_cassette_answers_in_order() -> None:
    """`replayed` plays the next one, and a function may look at the request."""
    cassette = Cassette("by hand", [exchange(b"1"), exchange(b"2")])
    with FaultyServer(cassette) as server:
        assert [httpx.post(server.url, content=b"{}").text for _ in range(3)] == ["1", "2", "2"]
    cassette.play(RecordedRequest("POST", "/chat"))
    assert recorded_reply(cassette).body == b"2"

    def echo(request: ReceivedRequest) -> HttpReply:
        return json_reply({"asked": request.path}, status=418, x_case="b")

    with FaultyServer(echo) as server:
        reply = httpx.get(server.url + "/tea")
    assert (reply.status_code, reply.json(), reply.headers["x-case"]) == (418, {"asked": "/tea"}, "b")


@pytest.mark.parametrize(
    ("framing", "kind"),
    [
        (Framing.SSE, "text/event-stream"),
        (Framing.LINES, "application/x-ndjson"),
        (Framing.ARRAY, "application/json"),
        (Framing.AWS, "application/vnd.amazon.eventstream"),
    ],
)
def test_bare_bytes_have_the_type_of_their_framing(framing: Framing, kind: str) -> None:
    """Whole, with their length, if there is no plan; a recorded type stays."""
    with FaultyServer(recorded_reply(BODIES[framing])) as server:
        reply = httpx.post(server.url, content=b"{}")
    assert reply.content == BODIES[framing]
    assert (reply.headers["content-type"], reply.headers["content-length"]) == (kind, str(len(reply.content)))
    own = recorded_reply(exchange(BODIES[framing], headers={"Content-Type": "text/plain"}), faults.Rechunk((9,)))
    assert own.headers == {"content-type": "text/plain"}


@pytest.mark.parametrize(
    ("plan", "kind"),
    [
        (faults.Cut(300), StreamTruncatedError),
        (faults.Cut(300, reset=True), NetworkError),
        (faults.Stall(300), RequestTimeoutError),
        (faults.Rechunk((7,)), None),
    ],
    ids=str,
)
def test_a_session_over_real_sockets(plan: faults.Plan, kind: type[Exception] | None) -> None:
    """A recorded stream, corrupted on the wire, ends in a typed error."""
    settings = {
        "api_key": "none",
        "timeout": PATIENCE if kind is RequestTimeoutError else FOREVER,
        "retry": RetryPolicy(max_retries=0),
    }
    with FaultyServer(recorded_reply(Cassette.load(TAPE), plan)) as server:
        providers = {"anthropic": {**settings, "base_url": server.url}}
        with Session("anthropic:qwen2.5-coder-0.5b", providers=providers) as session:
            if kind is None:
                events = list(session.stream("What is the capital of France?", max_output_tokens=32))
                assert events[-1].message.text == "The capital of France is Paris."  # type: ignore[union-attr]
            else:
                with pytest.raises(kind):
                    list(session.stream("What is the capital of France?", max_output_tokens=32))
                assert session.messages == ()
    # A machine that stops for as long as the time limit may give up before the server has read the request.
    assert server.requests or kind is RequestTimeoutError
    assert all(json.loads(request.body)["stream"] is True for request in server.requests)


@pytest.mark.parametrize("script", [[], (), {}, None, b"body", "body", [b"body"], faults.Cut(1), [faults.Cut(1)]])
def test_a_script_without_answers_is_refused(script: object) -> None:
    """A script without answers is refused at once, not in a thread of the server."""
    with pytest.raises(ConfigurationError):
        FaultyServer(script)  # type: ignore[arg-type]


def test_a_plan_that_does_not_fit_is_refused_at_once() -> None:
    """When the reply is made."""
    with pytest.raises(ConfigurationError, match="no byte 9"):
        recorded_reply(b"12345", faults.Cut(9))


def test_a_connection_that_comes_at_the_end_is_closed() -> None:
    """The server has ended while it was accepted: its client gets no answer, and the end is not an error."""
    server = FaultyServer(HttpReply(body=b"yes"))
    listener, has_accepted, has_ended = server._listener, threading.Event(), threading.Event()

    class LateListener:
        """Accepts a connection before the end, and hands it over after."""

        def accept(self) -> tuple[socket.socket, object]:
            accepted = listener.accept()
            has_accepted.set()
            assert has_ended.wait(FOREVER)
            return accepted

        def shutdown(self, how: int) -> None:
            has_ended.set()
            listener.shutdown(how)

        def close(self) -> None:
            listener.close()

    server._listener = LateListener()  # type: ignore[assignment]
    with server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=FOREVER)
        client.sendall(REQUEST)
        assert has_accepted.wait(FOREVER)
    with client, contextlib.suppress(ConnectionResetError):
        assert client.recv(1) == b""
    assert (server.connections, server.requests) == (0, [])
