"""A server of the Messages wire on loopback that counts its requests, in all and by row.

`python -m tests.bulk.mock_provider [--seconds S]` runs it as a process of its own and prints its port. A prompt is
``row N``; GET / returns the counts.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
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
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[int]:
        """Serves on loopback and yields the port. At its end no connection is left, whatever it waits for: a task that
        outlives the event loop fails when it is collected, in the middle of another test.
        """
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            self._closed = True
            server.close()
            connections = list(self._connections)
            for each in connections:
                each.cancel()
            await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:  # the listener had accepted it before it was closed
            writer.close()
            return
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        self.rows[row] += 1  # from here on the request is paid for, even if nobody reads the answer
        self.in_flight += 1
        await asyncio.sleep(self._seconds)
        self.in_flight -= 1
        return _reply(row)


@contextmanager
def mock_provider(seconds: float = 0.0) -> Iterator[str]:
    """Runs the server in a process of its own and yields its base URL."""
    command = [sys.executable, "-m", "tests.bulk.mock_provider", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def _main(seconds: float) -> None:
    async with RequestCounts(seconds).listen() as port:
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()  # until the process is terminated


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bulk.mock_provider", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="that an answer takes")
    asyncio.run(_main(parser.parse_args().seconds))
