"""The Messages wire on loopback, in a process of its own, that counts what it was asked: by each row, and in all.

`python -m tests.bulk.mock_provider [--seconds S]` prints its port. A prompt is ``row N``; GET / tells what it has seen.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_ROW = re.compile(rb"row (\d+)")
_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"


def _reply(row: int) -> bytes:
    body = json.dumps(
        {
            "id": f"msg_{row}", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
            "content": [{"type": "text", "text": f"answer {row}"}], "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 20, "output_tokens": 9},
        }
    ).encode()  # fmt: skip
    return _HEAD.format(len(body)).encode() + body


class RequestCounts:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.rows: Counter[int] = Counter()
        self.in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET"):
                    counts = {"rows": len(self.rows), "requests": self.rows.total(), "under_way": self.in_flight}
                    payload = json.dumps(counts).encode()
                    writer.write(_HEAD.format(len(payload)).encode() + payload)
                else:
                    lines = head.split(b"\r\n")
                    length = next(int(each[15:]) for each in lines if each.lower().startswith(b"content-length:"))
                    found = _ROW.search(await reader.readexactly(length))
                    assert found is not None
                    row = int(found[1])
                    writer.write(await self.answer(row))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, row: int) -> bytes:
        self.rows[row] += 1  # it is paid for from here on, whether anybody reads the answer or not
        self.in_flight += 1
        await asyncio.sleep(self._seconds)
        self.in_flight -= 1
        return _reply(row)


@contextmanager
def mock_provider(seconds: float = 0.0) -> Iterator[str]:
    """The base URL of one in a process of its own."""
    command = [sys.executable, "-m", "tests.bulk.mock_provider", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def _main(seconds: float) -> None:
    server = await asyncio.start_server(RequestCounts(seconds).serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bulk.mock_provider", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="that an answer takes")
    asyncio.run(_main(parser.parse_args().seconds))
