"""any-llm."""

# mypy: disable-error-code="import-not-found"
from typing import Any

from any_llm import acompletion

from tests.benchmarks.peers.asking import KEY, QUESTION, TOOL, Client, chat_delta, model


class Many:
    def __init__(self, wire: str) -> None:
        self._model = model(wire)

    async def _ask(self, base: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return await acompletion(
            model=self._model, provider="openai", api_base=f"{base}/v1", api_key=KEY, messages=messages, **more
        )

    async def call(self, base: str) -> str:
        text: str = (await self._ask(base)).choices[0].message.content
        return text

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [TOOL]} if tools else {}
        pieces: list[str] = []
        async for chunk in await self._ask(base, stream=True, **offered):
            pieces += [chat_delta(choice.delta) for choice in chunk.choices]
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Many(wire)
