"""LangChain, with its packages for Anthropic, OpenAI and Ollama."""

# mypy: disable-error-code="import-not-found"
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.benchmarks.peers.tasks import KEY, OFFERED, QUESTION, Client, model


def _model_factory(wire: str) -> Callable[[str], Any]:
    """A function from a base URL to a model. Only the wire's own package is imported, as in a program that uses it."""
    match wire:
        case "messages":
            from langchain_anthropic import ChatAnthropic

            return lambda base: ChatAnthropic(
                model=model(wire), base_url=base, api_key=KEY, max_retries=0, max_tokens=100
            )
        case "ollama":
            from langchain_ollama import ChatOllama

            return lambda base: ChatOllama(model=model(wire), base_url=base, num_predict=100)
        case _:
            from langchain_openai import ChatOpenAI

            return lambda base: ChatOpenAI(
                model=model(wire), base_url=f"{base}/v1", api_key=KEY, max_retries=0,
                use_responses_api=wire == "responses",
            )  # fmt: skip


class Chain:
    def __init__(self, wire: str) -> None:
        self._tool = OFFERED[wire]
        self._chat = cache(_model_factory(wire))

    async def call(self, base: str) -> str:
        return str((await self._chat(base).ainvoke(QUESTION)).text)

    async def stream(self, base: str, *, tools: bool) -> str:
        offered: dict[str, Any] = {"tools": [self._tool]} if tools else {}
        pieces: list[str] = []
        async for chunk in self._chat(base).astream(QUESTION, **offered):
            called = "".join(call["args"] or "" for call in chunk.tool_call_chunks)
            pieces.append(called or str(chunk.text))
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Chain(wire)
