"""A turn leaves nothing for the garbage collector, also if its caller leaves it: a program may switch it off."""

import asyncio

import pytest

from dragoman import AsyncClient, Client
from dragoman.testing.faults.server import FaultyServer, sse_reply
from tests.unit.client.garbage import our_garbage
from tests.unit.session.handwritten_replies import handwritten_anthropic

MODEL = "anthropic:claude-opus-4-8"
BODY = handwritten_anthropic("One two three.")

pytestmark = pytest.mark.usefixtures("quick_gc")


@pytest.mark.parametrize("leaves", [False, True])
def test_a_stream_leaves_nothing_for_the_collector(leaves: bool) -> None:
    def ask() -> None:
        with client.session(MODEL).stream("Hi") as stream:
            for _ in stream:
                if leaves:
                    break

    with FaultyServer(sse_reply(*BODY.frames)) as server:
        client = Client(providers={"anthropic": {"base_url": server.url, "api_key": "sk"}})
        ask()  # what stays is made
        with our_garbage() as found:
            ask()
        client.close()
    assert found == []


@pytest.mark.parametrize("leaves", [False, True])
def test_an_async_stream_leaves_nothing_for_the_collector(leaves: bool) -> None:
    async def ask(client: AsyncClient) -> None:
        async with client.session(MODEL).stream("Hi") as stream:
            async for _ in stream:
                if leaves:
                    break

    async def scenario(url: str) -> list[str]:
        async with AsyncClient(providers={"anthropic": {"base_url": url, "api_key": "sk"}}) as client:
            await ask(client)
            with our_garbage() as found:
                await ask(client)
                await asyncio.sleep(0)
        return found

    with FaultyServer(sse_reply(*BODY.frames)) as server:
        assert asyncio.run(scenario(server.url)) == []
