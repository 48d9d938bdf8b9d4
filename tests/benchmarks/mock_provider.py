"""A provider on loopback that costs as little as possible: every answer is prepared as bytes beforehand.

Run as a process of its own, so that its work is not counted: `python -m tests.benchmarks.mock_provider`. It prints its
port, and serves the Messages, Responses, Chat and Ollama wires. The first part of a path may name the shape of the
streams, as in `/paced/v1/messages`; without one, all deltas come at once.
"""

import asyncio
import json
import sys
from dataclasses import dataclass

from tests.benchmarks.wires import SENTENCE, WIRES, MockWire, arguments, words

DELTAS = 500
PACED = 200
PACE = 0.001
"""Seconds between two deltas of a paced stream."""
SLOW = 0.05
"""Seconds before a slow answer starts."""
OPENING, STILL = 20, 4.0
"""Frames at the start of a stream that then pauses, and the seconds of the pause."""

STREAM = b"".join(WIRES["messages"].text_stream(words(DELTAS)))


@dataclass(frozen=True)
class Answer:
    """What is sent: at once, or with a pause before each piece."""

    pieces: tuple[bytes, ...]
    pause: float = 0.0


def _whole(body: bytes, kind: str, pause: float = 0.0) -> Answer:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nrequest-id: req_1\r\n\r\n"
    return Answer((head.encode() + body,), pause)


def _pace(frames: list[bytes], kind: str, pause: float = PACE) -> Answer:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    chunks = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]
    return Answer((head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"), pause)


def _open(frames: list[bytes], kind: str) -> Answer:
    """A stream that pauses after its first deltas, so that many of them are open at once."""
    paced = _pace(frames, kind)
    return Answer((b"".join(paced.pieces[:OPENING]), b"".join(paced.pieces[OPENING:])), STILL)


def _answers(wire: MockWire) -> dict[str, Answer]:
    """The answers of a wire, by the shape that a path names; ``call`` is the unstreamed one."""
    text_body = json.dumps(wire.text_reply(SENTENCE)).encode()
    text_frames = list(wire.text_stream(words(DELTAS)))
    return {
        "call": _whole(text_body, "application/json"),
        "slow": _whole(text_body, "application/json", SLOW),
        "burst": _whole(b"".join(text_frames), wire.kind),
        "each": _pace(text_frames, wire.kind, 1e-9),  # one write a delta, without a pause
        "paced": _pace(list(wire.text_stream(words(PACED))), wire.kind),
        "open": _open(list(wire.text_stream(words(PACED))), wire.kind),
        "calls": _whole(b"".join(wire.call_stream([arguments(1_000)] * 20)), wire.kind),
        "long": _whole(b"".join(wire.call_stream([arguments(20_000)])), wire.kind),
    }


_ANSWERS = {wire.path: _answers(wire) for wire in WIRES.values()}


_UNKNOWN = Answer((b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",))
"""Other requests of clients: LiteLLM looks up an Ollama model first."""


def _answer(target: str, body: bytes) -> Answer:
    path = next((path for path in _ANSWERS if target.endswith(path)), None)
    if path is None:
        return _UNKNOWN
    answers = _ANSWERS[path]
    shape = target.removesuffix(path).strip("/").partition("/")[0]
    streams = b'"stream":true' in body or b'"stream": true' in body
    if streams:
        return answers[shape or "burst"]
    return answers["slow" if shape == "slow" else "call"]


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    """Read a body of a known length, or one in chunks."""
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return await reader.readexactly(int(line.split(b":")[1]))
    body = b""
    if b"transfer-encoding" not in head.lower():
        return body
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            answer = _answer(head.split(b" ", 2)[1].decode(), await _read_body(head, reader))
            for piece in answer.pieces:
                if answer.pause:
                    await asyncio.sleep(answer.pause)
                if writer.is_closing():
                    return
                writer.write(piece)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
