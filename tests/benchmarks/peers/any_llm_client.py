"""any-llm."""

# mypy: disable-error-code="import-not-found"
from typing import Any

from any_llm import acompletion, aresponses

from tests.benchmarks.peers.tasks import (
    KEY,
    OFFERED,
    QUESTION,
    TOOL,
    Client,
    chat_delta,
    model,
    responses_delta,
    responses_text,
)

_PROVIDERS = {"messages": ("anthropic", ""), "chat": ("openai", "/v1"), "ollama": ("ollama", "")}


class Completions:
    """Its single call for all providers."""

    def __init__(self, wire: str) -> None:
        self._model = model(wire)
        self._provider, self._suffix = _PROVIDERS[wire]

    async def _ask(self, base: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return await acompletion(
            model=self._model, provider=self._provider, api_base=base + self._suffix, api_key=KEY,
            messages=messages, max_tokens=100, **more,
        )  # fmt: skip

    async def call(self, base: str) -> str:
        text: str = (await self._ask(base)).choices[0].message.content
        return text

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [TOOL]} if tools else {}
        pieces: list[str] = []
        async for chunk in await self._ask(base, stream=True, **offered):
            pieces += [chat_delta(choice.delta) for choice in chunk.choices]
        return "".join(pieces)


class Responses:
    def __init__(self, wire: str) -> None:
        self._model, self._tool = model(wire), OFFERED[wire]

    async def _ask(self, base: str, **more: Any) -> Any:
        return await aresponses(
            model=self._model, input_data=QUESTION, provider="openai", api_base=f"{base}/v1", api_key=KEY, **more
        )

    async def call(self, base: str) -> str:
        return responses_text(await self._ask(base))

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [self._tool]} if tools else {}
        return "".join([responses_delta(event) async for event in await self._ask(base, stream=True, **offered)])


def connect(wire: str) -> Client:
    return Responses(wire) if wire == "responses" else Completions(wire)
