"""A provider on loopback that costs as little as possible: every answer is prepared as bytes before it is asked for.

Run as a process of its own, so that its work is not counted: `python -m tests.benchmarks.mock_provider`. It prints
its port, and serves the Messages wire.
"""

import asyncio
import json
import sys

DELTAS = 500

REPLY = json.dumps(
    {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6",
        "content": [{"type": "text", "text": "The capital of France is Paris."}],
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 20, "output_tokens": 9, "service_tier": "standard"},
    }
).encode()  # fmt: skip


def _event(data: dict[str, object]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


STREAM = b"".join(
    [
        _event(
            {
                "type": "message_start",
                "message": {
                    "id": "msg_01",
                    "type": "message",
                    "role": "assistant",
                    "model": "claude-sonnet-4-6",
                    "content": [],
                    "stop_reason": None,
                    "usage": {"input_tokens": 20, "output_tokens": 1},
                },
            }
        ),
        _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        *(
            _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"word{n} "}})
            for n in range(DELTAS)
        ),
        _event({"type": "content_block_stop", "index": 0}),
        _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": DELTAS}}),
        _event({"type": "message_stop"}),
    ]
)


def _http(body: bytes, kind: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nrequest-id: req_1\r\n\r\n"
    return head.encode() + body


_WHOLE, _STREAMED = _http(REPLY, "application/json"), _http(STREAM, "text/event-stream")


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            )
            body = await reader.readexactly(length)
            writer.write(_STREAMED if b'"stream":true' in body or b'"stream": true' in body else _WHOLE)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
