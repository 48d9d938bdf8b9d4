"""Nothing is left behind: programs that close nothing end without a warning, and their connections with them."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.transport.drivers import requires

BODY = handwritten_anthropic("One two three.")

PROGRAMS = {
    "a session that is never closed": """
        from dragoman import Session
        session = Session(MODEL, **settings)
        print(session.ask("Hi").text)
        """,
    "many sessions that are dropped": """
        import gc
        from dragoman import Session
        for _ in range(20):
            Session(MODEL, **settings).ask("Hi")
        gc.collect()
        print(len(threading.enumerate()))
        """,
    "a client that is never closed": """
        from dragoman import Client
        client = Client(providers={"anthropic": settings})
        print(client.ask(MODEL, "Hi").text)
        """,
    "an async session that is never closed": """
        import asyncio
        from dragoman import AsyncSession
        async def main():
            print((await AsyncSession(MODEL, **settings).ask("Hi")).text)
        asyncio.run(main())
        """,
    "async sessions in several loops": """
        import asyncio
        from dragoman import AsyncClient
        client = AsyncClient(providers={"anthropic": settings})
        async def main():
            await asyncio.gather(*[client.ask(MODEL, "Hi") for _ in range(10)])
        for _ in range(3):
            asyncio.run(main())
        """,
    "sessions in threads that have ended": """
        from dragoman import ask
        threads = [threading.Thread(target=lambda: ask(MODEL, "Hi", **settings)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
    "an event loop in a thread": """
        import asyncio
        from dragoman import AsyncSession
        async def main():
            print((await AsyncSession(MODEL, **settings).ask("Hi")).text)
        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join()
        """,
}

RARE = ("sessions in threads that have ended", "an event loop in a thread", "a client that is never closed")
"""Programs that only the exhaustive run tries."""
CASES = [
    pytest.param(
        name,
        engine,
        marks=[requires(engine), *[pytest.mark.exhaustive] * (name in RARE)],
        id=f"{name}, {engine}",
    )
    for name, program in PROGRAMS.items()
    for engine in ("httpx", "aiohttp")
    if engine == "httpx" or "asyncio" in program
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "engine"), CASES)
def test_a_program_that_closes_nothing_ends_cleanly(name: str, engine: str) -> None:
    """Every warning is shown, ResourceWarning too; there is none, and the server sees all connections closed."""
    with FaultyServer(answer) as server:
        done = run(PROGRAMS[name], server, engine)
        assert (done.returncode, done.stderr) == (0, "")
        assert server.wait_until_closed() == 0


@pytest.mark.exhaustive
def test_a_loop_that_is_closed_under_a_stream_leaves_a_typed_error() -> None:
    """The stream of a closed loop cannot go on in another; the session can."""
    program = """
        import asyncio
        from dragoman import AsyncSession, DragomanError
        session = AsyncSession(MODEL, **settings)
        stream = session.stream("Hi")
        async def begin():
            await anext(stream)
        async def go_on():
            try:
                await stream.get_reply()
            except (DragomanError, RuntimeError, StopAsyncIteration) as error:
                print(type(error).__name__)
            print((await session.ask("Again")).text)
        asyncio.run(begin())
        asyncio.run(go_on())
        """
    with FaultyServer(answer) as server:
        done = run(program, server, "httpx")
    assert done.stdout.splitlines()[-1] == "One two three."


def answer(request: ReceivedRequest) -> HttpReply:
    """Answer as the request asks: whole, or as a stream."""
    return sse_reply(*BODY.frames) if b'"stream":true' in request.body else json_reply(json.loads(BODY.body))


def run(program: str, server: FaultyServer, engine: str) -> "subprocess.CompletedProcess[str]":
    """Run a program that knows the model and the settings of its provider."""
    prelude = f"""
        import threading
        MODEL = "anthropic:claude-sonnet-4-6"
        settings = {{"base_url": {server.url!r}, "api_key": "none"}}
        """
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(prelude) + textwrap.dedent(program)],
        env=os.environ | {"DRAGOMAN_ENGINE": engine},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
