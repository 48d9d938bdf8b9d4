"""A long history is encoded beside the event loop, where other tasks wait."""

import asyncio
import threading
from typing import Any

import httpx
import pytest

from dragoman import AsyncSession, Message
from dragoman.adapter.wire_adapter import WireAdapter
from tests.benchmarks.wires import WIRES


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("messages", "in_loop"), [(10, True), (5_000, False)])
def test_a_long_history_is_encoded_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, messages: int, in_loop: bool, streamed: bool
) -> None:
    threads: list[bool] = []
    to_wire = WireAdapter.to_wire

    def note(self: WireAdapter, *arguments: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return to_wire(self, *arguments)

    monkeypatch.setattr(WireAdapter, "to_wire", note)

    def answer(request: httpx.Request) -> httpx.Response:
        if streamed:
            body = b"".join(WIRES["chat"].text_stream(["In ", "Switzerland."]))
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)
        return httpx.Response(200, json=WIRES["chat"].text_reply("In Switzerland."))

    async def main() -> str:
        history = [Message.user("Where is Bern?"), Message.assistant("There.")] * (messages // 2)
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            providers: Any = {"openai-chat": {"client": client, "api_key": "none"}}
            async with AsyncSession("openai-chat:m", providers=providers, messages=history) as session:
                if not streamed:
                    return (await session.ask("Where?")).text
                async with session.stream("Where?") as events:
                    return "".join([event.text async for event in events if hasattr(event, "text")])

    assert asyncio.run(main()) == "In Switzerland."
    assert threads == [in_loop]
