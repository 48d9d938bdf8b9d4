"""A small HTTP server on 127.0.0.1 that produces configured faults: truncation, resets, stalls, wrong lengths.

::

    from dragoman.testing.faults.plan import Cut
    from dragoman.testing.faults.server import FaultyServer, recorded_reply

    with FaultyServer(recorded_reply(exchange, Cut(100, reset=True))) as server:
        ...  # a program in any language calls `server.url`
    assert len(server.requests) == 1

It uses real sockets and real time, for what an in-process transport cannot show: connections that stay open, clients
with other HTTP libraries, resets on the wire. It keeps the bytes of every request, so that tests check what was really
sent.
"""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import IO, Any, Self

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing.cassettes.file import Exchange
from dragoman.testing.cassettes.replay import Cassette
from dragoman.testing.event_bytes import CONTENT_TYPES, detect_framing
from dragoman.testing.faults.plan import Plan
from dragoman.testing.faults.recorded import RecordedReply, next_exchange, reply_body
from dragoman.testing.faults.transport import BODY_HEADERS, Refusals


class ConnectionFault(Enum):
    """What happens to a connection in the middle of a reply. ``STALL``: send nothing more until the client leaves.
    ``HANG_UP``: a clean end. ``RESET``: a reset connection."""

    STALL = "stall"
    HANG_UP = "hang up"
    RESET = "reset"


STALL = ConnectionFault.STALL
"""Send nothing more until the client leaves."""
HANG_UP = ConnectionFault.HANG_UP
"""End the connection cleanly."""
RESET = ConnectionFault.RESET
"""Reset the connection."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A real wait before the next step."""

    seconds: float
    """How long to wait."""


ReplyStep = bytes | Pause | ConnectionFault
"""A step of a scripted reply: bytes that are sent, a wait, or what happens to the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A reply: the step ``before`` the status line, then the head, then ``body`` or ``steps``.

    A ``body`` is sent with its length, or with a wrong ``length``. Each bytes object of ``steps`` is one HTTP chunk.
    ``raw`` replaces everything.
    """

    status: int = 200
    """The HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The response's headers; the length is added."""
    body: bytes = b""
    length: int | None = None
    steps: Sequence[ReplyStep] | None = None
    before: ReplyStep | None = None
    raw: bytes | None = None


def json_reply(value: Any, status: int = 200, **headers: str) -> HttpReply:
    """Return a whole JSON reply. Headers are named with underscores: ``retry_after="1"``."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return HttpReply(
        status=status, headers={"content-type": "application/json", **names}, body=json.dumps(value).encode()
    )


def sse_reply(*steps: ReplyStep) -> HttpReply:
    """Return a stream of server-sent events. Each step is a chunk, a `Pause` or a `ConnectionFault`."""
    return HttpReply(headers={"content-type": "text/event-stream"}, steps=steps)


def recorded_reply(recorded: RecordedReply, plan: Plan | None = None) -> HttpReply:
    """Return a recorded reply, or the next one of a cassette, with a plan applied to it.

    For bytes, the status is 200 and the content type fits the framing. Raises ConfigurationError if the plan does not
    fit.
    """
    exchange, body = next_exchange(recorded), reply_body(recorded)
    status, recorded_headers = (exchange.response.status, exchange.response.headers) if exchange else (200, {})
    headers = {name.lower(): value for name, value in recorded_headers.items() if name.lower() not in BODY_HEADERS}
    headers = {"content-type": CONTENT_TYPES[detect_framing(body)], **headers}
    if plan is None:
        return HttpReply(status=status, headers=headers, body=body)
    steps: list[ReplyStep] = []
    try:
        steps.extend(plan.apply(body))
    except ConnectionResetError:
        steps.append(RESET)
    except TimeoutError:
        steps.append(STALL)
    return HttpReply(status=status, headers=headers, steps=steps)


_JOIN_TIMEOUT = 5.0
"""Seconds that a thread has to end after its socket is closed."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request. ``head`` has the bytes before the body; ``connection`` counts from 0."""

    method: str
    """The HTTP method, in upper case."""
    path: str
    """The path with its query."""
    headers: Mapping[str, str]
    """The request's headers, with names in lower case."""
    body: bytes
    """The bytes of the body."""
    head: bytes
    connection: int


ServerAnswer = HttpReply | Refusals | Exchange | Cassette
"""What a server answers: one reply, several refusals, or what was recorded."""
ServerScript = Sequence[ServerAnswer] | Callable[[ReceivedRequest], HttpReply]
"""The answers of a server in order, or a function that answers each request."""


class FaultyServer:
    """Answers by a script: replies in order, the last one repeatedly, or a function of the request.

    ``[status_then_success(429, {"retry-after": "0"}, times=2), exchange]`` refuses twice, then serves the recorded
    reply. A cassette serves its exchanges in order and ignores the request.

    The server runs inside ``with`` only and closes all connections on exit. ``url`` has no path and no final slash.
    ``requests`` has all requests in order; ``connections`` counts all opened ones. Raises ConfigurationError for an
    empty script.
    """

    def __init__(self, script: ServerScript | ServerAnswer) -> None:
        self._script = _expand_script(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        """The port on 127.0.0.1, chosen by the system."""
        self.url = f"http://127.0.0.1:{self.port}"
        self.requests: list[ReceivedRequest] = []
        self.connections = 0

    @property
    def open_connections(self) -> int:
        """The number of connections that the clients have not closed."""
        with self._lock:
            return len(self._connections)

    def wait_until_closed(self, at_most_open: int = 0, seconds: float = 10.0) -> int:
        """Wait until at most ``at_most_open`` connections are open, or the time is up. Return their number."""
        end = time.monotonic() + seconds
        while self.open_connections > at_most_open and time.monotonic() < end:
            time.sleep(0.01)
        return self.open_connections

    def __enter__(self) -> Self:
        self._start(self._accept_connections)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:  # no connection is accepted afterwards
            self._closing.set()
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=_JOIN_TIMEOUT)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept_connections(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._closing.is_set():
                    connection.close()
                    return
                self._connections.add(connection)
                number, self.connections = self.connections, self.connections + 1
                self._start(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection.makefile("rb") as reader:
                while (request := _read_request(reader, number)) is not None:
                    with self._lock:
                        self.requests.append(request)
                        if callable(self._script):
                            reply = self._script(request)
                        else:
                            reply = self._script[min(len(self.requests), len(self._script)) - 1]
                    if not self._send_reply(connection, reply):
                        return
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _send_reply(self, connection: socket.socket, reply: HttpReply) -> bool:
        """Send a reply, with the length or the chunked encoding that it claims. Return whether the connection can take
        another request."""
        if reply.before is not None and not self._send_step(connection, reply.before, chunked=False):
            return False
        if reply.raw is not None:
            connection.sendall(reply.raw)
            return False
        headers = {name.lower(): value for name, value in reply.headers.items()}
        if reply.steps is not None:
            headers["transfer-encoding"] = "chunked"
        elif "content-length" not in headers:
            headers["content-length"] = str(len(reply.body) if reply.length is None else reply.length)
        lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        connection.sendall(head + (b"" if reply.steps is not None else reply.body))
        if reply.steps is None:
            return reply.length in (None, len(reply.body))
        for step in reply.steps:
            if not self._send_step(connection, step, chunked=True):
                return False
        connection.sendall(b"0\r\n\r\n")
        return True

    def _send_step(self, connection: socket.socket, step: ReplyStep, *, chunked: bool) -> bool:
        match step:
            case b"":  # an empty chunk would end the reply
                return True
            case bytes():
                connection.sendall(b"%x\r\n%s\r\n" % (len(step), step) if chunked else step)
                return True
            case Pause():
                return not self._closing.wait(step.seconds)
            case ConnectionFault.STALL:
                # Ends when the client or the server closes the connection.
                connection.recv(1)
                return False
            case ConnectionFault.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            case ConnectionFault.HANG_UP:
                return False


def _expand_script(script: ServerScript | ServerAnswer) -> Sequence[HttpReply] | Callable[[ReceivedRequest], HttpReply]:
    if callable(script):
        return script
    answers = [script] if isinstance(script, ServerAnswer) else script
    if not isinstance(answers, Sequence) or not answers:
        raise ConfigurationError("a server needs answers: pass a reply, a list of replies or a function")
    replies: list[HttpReply] = []
    for answer in answers:
        match answer:
            case HttpReply():
                replies.append(answer)
            case Refusals():
                refusal = HttpReply(status=answer.status, headers=answer.headers, body=answer.body)
                replies += [refusal] * answer.times
            case Exchange():
                replies.append(recorded_reply(answer))
            case Cassette():
                replies += map(recorded_reply, answer.exchanges)
            case _:
                raise ConfigurationError(f"{answer!r:.80} is not an answer of a server")
    return replies


def _read_request(reader: IO[bytes], connection: int) -> ReceivedRequest | None:
    lines: list[bytes] = []
    while (line := reader.readline()) not in (b"\r\n", b"\n", b""):
        lines.append(line)
    if not lines:
        return None
    headers = {}
    for line in lines[1:]:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = b""
    if "transfer-encoding" in headers:
        while size := _parse_size(reader.readline().decode("latin-1").partition(";")[0], 16):
            body += reader.read(size)
            reader.readline()
        reader.readline()
    else:
        body = reader.read(_parse_size(headers.get("content-length", "0"), 10))
    method, _, rest = lines[0].decode("latin-1").partition(" ")
    return ReceivedRequest(method, rest.rpartition(" ")[0], headers, body, b"".join(lines), connection)


def _parse_size(text: str, base: int) -> int:
    """Return the size of the body. Raises OSError, as for a lost connection: the request cannot be read to its end."""
    try:
        return int(text.strip(), base)
    except ValueError:
        raise ConnectionAbortedError(f"{text!r:.80} is not a size") from None
