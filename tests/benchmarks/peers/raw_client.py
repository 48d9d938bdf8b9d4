"""httpx and json, nothing else: the least that a reply can cost in this way."""

# mypy: disable-error-code="import-not-found"
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.benchmarks.peers.tasks import KEY, OFFERED, QUESTION, RESPONSES_DELTAS, Client, model
from tests.benchmarks.wires import WIRES

_SAID = [{"role": "user", "content": QUESTION}]


@dataclass(frozen=True)
class RawWire:
    """A wire in plain code: a request's fields, a reply's text, and the increment of one frame of a stream."""

    fields: dict[str, Any]
    text: Callable[[Any], str]
    delta: Callable[[Any], str]
    mark: str = "data:"
    """The prefix of a data line of the stream."""


def _claudes_delta(event: dict[str, Any]) -> str:
    delta = event.get("delta") or {}
    return delta.get("text") or delta.get("partial_json") or ""


def _response_delta(event: dict[str, Any]) -> str:
    delta: str = event["delta"] if event["type"] in RESPONSES_DELTAS else ""
    return delta


def _chat_delta(chunk: dict[str, Any]) -> str:
    for choice in chunk["choices"]:
        for call in choice["delta"].get("tool_calls") or ():
            return call["function"]["arguments"] or ""
        return choice["delta"].get("content") or ""
    return ""


def _ollamas_delta(chunk: dict[str, Any]) -> str:
    message = chunk["message"]
    called = "".join(json.dumps(call["function"]["arguments"]) for call in message.get("tool_calls") or ())
    return called or message["content"]


RAW_WIRES = {
    "messages": RawWire(
        {"messages": _SAID, "max_tokens": 100}, lambda reply: reply["content"][0]["text"], _claudes_delta
    ),
    "responses": RawWire(
        {"input": QUESTION, "max_output_tokens": 100},
        lambda reply: reply["output"][0]["content"][0]["text"], _response_delta,
    ),
    "chat": RawWire(
        {"messages": _SAID, "max_completion_tokens": 100},
        lambda reply: reply["choices"][0]["message"]["content"], _chat_delta,
    ),
    "ollama": RawWire(
        {"messages": _SAID, "options": {"num_predict": 100}},
        lambda reply: reply["message"]["content"], _ollamas_delta, mark="",
    ),
}  # fmt: skip


class Raw:
    def __init__(self, wire: str, client: httpx.AsyncClient) -> None:
        self._path = WIRES[wire].path
        self._wire = RAW_WIRES[wire]
        self._fields = {"model": model(wire), **self._wire.fields}
        self._tool = OFFERED[wire]
        self._client = client
        self._sync_client = httpx.Client(timeout=600)
        self._headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "anthropic-version": "2026-10-21"}

    async def call(self, base: str) -> str:
        body = {**self._fields, "stream": False}
        reply = await self._client.post(base + self._path, json=body, headers=self._headers)
        return self._wire.text(reply.json())

    def call_sync(self, base: str) -> str:
        body = {**self._fields, "stream": False}
        return self._wire.text(self._sync_client.post(base + self._path, json=body, headers=self._headers).json())

    async def stream(self, base: str, *, tools: bool) -> str:
        body = {**self._fields, "stream": True, **({"tools": [self._tool]} if tools else {})}
        mark, read = self._wire.mark, self._wire.delta
        async with self._client.stream("POST", base + self._path, json=body, headers=self._headers) as reply:
            pieces = [
                read(json.loads(line[len(mark) :]))
                async for line in reply.aiter_lines()
                if line and line.startswith(mark) and not line.endswith("[DONE]")
            ]
        return "".join(pieces)


def connect(wire: str) -> Client:
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    if os.environ.get("ENGINE") == "aiohttp":
        from httpx_aiohttp import AiohttpTransport

        return Raw(wire, httpx.AsyncClient(transport=AiohttpTransport(limits=limits), timeout=600))
    return Raw(wire, httpx.AsyncClient(limits=limits, timeout=600))
