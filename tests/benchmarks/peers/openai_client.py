"""The official client of OpenAI: Chat Completions and Responses."""

# mypy: disable-error-code="import-not-found"
from functools import cache
from typing import Any

import openai

from tests.benchmarks.peers.tasks import (
    KEY,
    OFFERED,
    QUESTION,
    Client,
    chat_delta,
    model,
    responses_delta,
    responses_text,
)


class Official:
    def __init__(self, wire: str) -> None:
        self._tool = OFFERED[wire]
        self._model = model(wire)
        self._client = cache(lambda base: openai.AsyncOpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0))
        self._sync_client = cache(lambda base: openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0))

    def _tool_arguments(self, *, tools: bool) -> dict[str, Any]:
        return {"tools": [self._tool]} if tools else {}


class Chat(Official):
    async def _ask(self, base: str, **more: Any) -> Any:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        return await self._client(base).chat.completions.create(
            model=self._model, messages=messages, max_completion_tokens=100, **more
        )

    async def call(self, base: str) -> str:
        return (await self._ask(base)).choices[0].message.content or ""

    def call_sync(self, base: str) -> str:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        completions = self._sync_client(base).chat.completions
        reply = completions.create(model=self._model, messages=messages, max_completion_tokens=100)
        return reply.choices[0].message.content or ""

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        async for chunk in await self._ask(base, **self._tool_arguments(tools=tools), stream=True):
            pieces += [chat_delta(choice.delta) for choice in chunk.choices]
        return "".join(pieces)


class Responses(Official):
    async def _ask(self, base: str, **more: Any) -> Any:
        return await self._client(base).responses.create(
            model=self._model, input=QUESTION, max_output_tokens=100, **more
        )

    async def call(self, base: str) -> str:
        return responses_text(await self._ask(base))

    def call_sync(self, base: str) -> str:
        responses = self._sync_client(base).responses
        return responses_text(responses.create(model=self._model, input=QUESTION, max_output_tokens=100))

    async def stream(self, base: str, *, tools: bool) -> str:
        stream = await self._ask(base, **self._tool_arguments(tools=tools), stream=True)
        return "".join([responses_delta(event) async for event in stream])


def connect(wire: str) -> Client:
    return Chat(wire) if wire == "chat" else Responses(wire)
