"""The official client of OpenAI."""

# mypy: disable-error-code="import-not-found"
from functools import cache
from typing import Any

import openai

from tests.benchmarks.peers.asking import KEY, QUESTION, TOOL, Client, chat_delta, model


class Official:
    def __init__(self, wire: str) -> None:
        self._asked: dict[str, Any] = {
            "model": model(wire),
            "messages": [{"role": "user", "content": QUESTION}],
            "max_completion_tokens": 100,
        }
        self._client = cache(lambda base: openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0))

    async def call(self, base: str) -> str:
        reply = await self._client(base).chat.completions.create(**self._asked)
        return reply.choices[0].message.content or ""

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        offered: dict[str, Any] = {"tools": [TOOL]} if tools else {}
        stream = await self._client(base).chat.completions.create(**self._asked, **offered, stream=True)
        async for chunk in stream:
            pieces += [chat_delta(choice.delta) for choice in chunk.choices]
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Official(wire)
