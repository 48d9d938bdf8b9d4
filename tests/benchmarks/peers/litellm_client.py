"""LiteLLM."""

# mypy: disable-error-code="import-not-found"
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

from tests.benchmarks.peers.asking import KEY, QUESTION, TOOL, Client, chat_delta, model


class Lite:
    def __init__(self, wire: str) -> None:
        prefix = "anthropic" if wire == "messages" else "openai"
        self._prefixed = f"{prefix}/{model(wire)}"
        self._suffix = "" if wire == "messages" else "/v1"

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


def connect(wire: str) -> Client:
    return Lite(wire)
