"""LangChain, with its package for OpenAI."""

# mypy: disable-error-code="import-not-found"
from functools import cache
from typing import Any

from langchain_openai import ChatOpenAI

from tests.benchmarks.peers.asking import KEY, QUESTION, TOOL, Client, model


class Chain:
    def __init__(self, wire: str) -> None:
        self._chat = cache(
            lambda base: ChatOpenAI(
                model=model(wire), base_url=f"{base}/v1", api_key=KEY, max_retries=0, use_responses_api=False
            )
        )

    async def call(self, base: str) -> str:
        text: str = (await self._chat(base).ainvoke(QUESTION)).content
        return text

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [TOOL]} if tools else {}
        pieces: list[str] = []
        async for chunk in self._chat(base).astream(QUESTION, **offered):
            called = "".join(call["args"] or "" for call in chunk.tool_call_chunks)
            pieces.append(called or chunk.content)
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Chain(wire)
