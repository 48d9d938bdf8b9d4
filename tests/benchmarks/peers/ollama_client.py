"""The official client of Ollama."""

# mypy: disable-error-code="import-not-found"
import json
from functools import cache
from typing import Any

import ollama

from tests.benchmarks.peers.tasks import QUESTION, TOOL, Client, model


class Official:
    def __init__(self, wire: str) -> None:
        self._model = model(wire)
        self._client = cache(lambda base: ollama.AsyncClient(host=base))
        self._sync_client = cache(lambda base: ollama.Client(host=base))

    async def _ask(self, base: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return await self._client(base).chat(self._model, messages, options={"num_predict": 100}, **more)

    async def call(self, base: str) -> str:
        return (await self._ask(base)).message.content or ""

    def call_sync(self, base: str) -> str:
        messages = [{"role": "user", "content": QUESTION}]
        reply = self._sync_client(base).chat(self._model, messages, options={"num_predict": 100})
        return reply.message.content or ""

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        async for chunk in await self._ask(base, tools=[TOOL] if tools else None, stream=True):
            pieces += [json.dumps(call.function.arguments) for call in chunk.message.tool_calls or ()]
            pieces.append(chunk.message.content or "")
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Official(wire)
