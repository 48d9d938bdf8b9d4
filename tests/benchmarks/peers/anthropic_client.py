"""The official client of Anthropic."""

from functools import cache
from typing import Any

import anthropic

from tests.benchmarks.peers.tasks import KEY, MESSAGES_TOOL, QUESTION, Client, model


class Official:
    def __init__(self, wire: str) -> None:
        self._asked: dict[str, Any] = {
            "model": model(wire),
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": 100,
        }
        self._client = cache(lambda base: anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0))
        self._sync_client = cache(lambda base: anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0))

    async def call(self, base: str) -> str:
        reply = await self._client(base).messages.create(**self._asked)
        return "".join(block.text for block in reply.content if block.type == "text")

    def call_sync(self, base: str) -> str:
        reply = self._sync_client(base).messages.create(**self._asked)
        return "".join(block.text for block in reply.content if block.type == "text")

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        offered: dict[str, Any] = {"tools": [MESSAGES_TOOL]} if tools else {}
        async for event in await self._client(base).messages.create(**self._asked, **offered, stream=True):
            if event.type == "content_block_delta":
                delta = event.delta
                pieces.append(delta.text if delta.type == "text_delta" else getattr(delta, "partial_json", ""))
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Official(wire)
