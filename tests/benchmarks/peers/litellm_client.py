"""LiteLLM."""

# mypy: disable-error-code="import-not-found"
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

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

_PROVIDERS = {"messages": ("anthropic", ""), "chat": ("openai", "/v1"), "ollama": ("ollama_chat", "")}


class Completions:
    """Its single call for all providers."""

    def __init__(self, wire: str) -> None:
        provider, self._suffix = _PROVIDERS[wire]
        self._prefixed = f"{provider}/{model(wire)}"

    async def _ask(self, base: str, **more: Any) -> Any:
        messages = [{"role": "user", "content": QUESTION}]
        return await litellm.acompletion(
            model=self._prefixed, api_base=base + self._suffix, api_key=KEY, messages=messages, max_tokens=100, **more
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


class Responses:
    def __init__(self, wire: str) -> None:
        self._prefixed, self._tool = f"openai/{model(wire)}", OFFERED[wire]

    async def _ask(self, base: str, **more: Any) -> Any:
        return await litellm.aresponses(
            model=self._prefixed, input=QUESTION, api_base=f"{base}/v1", api_key=KEY, max_output_tokens=100, **more
        )

    async def call(self, base: str) -> str:
        return responses_text(await self._ask(base))

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [self._tool]} if tools else {}
        return "".join([responses_delta(event) async for event in await self._ask(base, stream=True, **offered)])


def connect(wire: str) -> Client:
    return Responses(wire) if wire == "responses" else Completions(wire)
