"""A small HTTP server on 127.0.0.1 that fails as it is told to: cuts, resets, stalls, lies about lengths.

It keeps every request as the bytes that arrived, so that tests judge what was sent and not what was meant.
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
from typing import Any, Self


class Fault(Enum):
    """``STALL``: say nothing more until the client goes. ``HANG_UP``: a clean end. ``RESET``: a reset connection."""

    STALL = "stall"
    HANG_UP = "hang up"
    RESET = "reset"


STALL, HANG_UP, RESET = Fault.STALL, Fault.HANG_UP, Fault.RESET


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, then go on."""

    seconds: float


Step = bytes | Pause | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is answered: ``before`` the status line a step, then the head, then ``body``, or ``steps``.

    A ``body`` goes out with its length, or with the ``length`` that is claimed instead. Each bytes of ``steps`` goes
    out as one HTTP chunk. ``raw`` is sent in place of everything.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    length: int | None = None
    steps: Sequence[Step] | None = None
    before: Step | None = None
    raw: bytes | None = None


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status=status, headers={"content-type": "application/json", **names}, body=json.dumps(value).encode())


def sse_reply(*steps: Step) -> Reply:
    return Reply(headers={"content-type": "text/event-stream"}, steps=steps)


@dataclass(frozen=True, slots=True)
class Received:
    """One request: ``head`` is everything before the body, as it arrived; ``connection`` counts from 0."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    head: bytes
    connection: int


Script = Sequence[Reply] | Callable[[Received], Reply]


class FaultyServer:
    """Answers by a script: replies in turn, the last one again and again, or a function of the request."""

    def __init__(self, script: Script | Reply) -> None:
        self._script: Script = [script] if isinstance(script, Reply) else script
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.received: list[Received] = []
        self.connections = 0

    @property
    def open_connections(self) -> int:
        with self._lock:
            return len(self._open)

    def wait_until_closed(self, at_most_open: int = 0, seconds: float = 10.0) -> int:
        """The connections still open once there are few enough, or once time is up."""
        end = time.monotonic() + seconds
        while self.open_connections > at_most_open and time.monotonic() < end:
            time.sleep(0.01)
        return self.open_connections

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(timeout=5)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
                number, self.connections = self.connections, self.connections + 1
            self._start(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            reader = connection.makefile("rb")
            with reader:
                while (request := _read_request(reader.readline, reader.read, number)) is not None:
                    with self._lock:
                        reply = self._reply_to(request)
                    if not self._answer(connection, reply):
                        return
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _reply_to(self, request: Received) -> Reply:
        self.received.append(request)
        if callable(self._script):
            return self._script(request)
        return self._script[min(len(self.received), len(self._script)) - 1]

    def _answer(self, connection: socket.socket, reply: Reply) -> bool:
        """Whether the connection is still good for another request."""
        if reply.before is not None and not self._step(connection, reply.before, chunked=False):
            return False
        if reply.raw is not None:
            connection.sendall(reply.raw)
            return False
        connection.sendall(_head(reply) + (b"" if reply.steps is not None else reply.body))
        if reply.steps is None:
            return reply.length in (None, len(reply.body))
        for step in reply.steps:
            if not self._step(connection, step, chunked=True):
                return False
        connection.sendall(b"0\r\n\r\n")
        return True

    def _step(self, connection: socket.socket, step: Step, *, chunked: bool) -> bool:
        match step:
            case bytes():
                connection.sendall(b"%x\r\n%s\r\n" % (len(step), step) if chunked else step)
                return True
            case Pause():
                return not self._closing.wait(step.seconds)
            case Fault.STALL:
                # Ends when the client hangs up, or when the server does.
                connection.recv(1)
                return False
            case Fault.RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            case Fault.HANG_UP:
                return False


def _head(reply: Reply) -> bytes:
    headers = {name.lower(): value for name, value in reply.headers.items()}
    if reply.steps is not None:
        headers["transfer-encoding"] = "chunked"
    elif "content-length" not in headers:
        headers["content-length"] = str(len(reply.body) if reply.length is None else reply.length)
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _read_request(readline: Callable[[], bytes], read: Callable[[int], bytes], connection: int) -> Received | None:
    lines: list[bytes] = []
    while (line := readline()) not in (b"\r\n", b"\n", b""):
        lines.append(line)
    if not lines:
        return None
    headers = dict(_header(line) for line in lines[1:])
    body = read(int(headers.get("content-length", "0")))
    method, _, rest = lines[0].decode("latin-1").partition(" ")
    return Received(method, rest.rpartition(" ")[0], headers, body, b"".join(lines), connection)


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("latin-1").partition(":")
    return name.strip().lower(), value.strip()
