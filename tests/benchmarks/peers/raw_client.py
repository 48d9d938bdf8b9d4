"""httpx and json, nothing else: what a reply costs at least in this way."""

# mypy: disable-error-code="import-not-found"
import json
import os
from typing import Any

import httpx

from tests.benchmarks.peers.asking import KEY, PARAMETERS, QUESTION, TOOL, Client, model
from tests.benchmarks.wires import WIRES

_CLAUDES_TOOL = {"name": "write", "input_schema": PARAMETERS}


class Raw:
    def __init__(self, wire: str, client: httpx.AsyncClient) -> None:
        self._wire = wire
        self._client = client
        self._headers = {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "anthropic-version": "2026-10-21"}

    def _body(self, *, stream: bool, tools: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model(self._wire), "messages": [{"role": "user", "content": QUESTION}]}
        body |= {"max_tokens": 100} if self._wire == "messages" else {"max_completion_tokens": 100}
        if tools:
            body["tools"] = [_CLAUDES_TOOL if self._wire == "messages" else TOOL]
        return body | ({"stream": True} if stream else {})

    async def call(self, base: str) -> str:
        url = base + WIRES[self._wire].path
        reply = await self._client.post(url, json=self._body(stream=False), headers=self._headers)
        found = reply.json()
        text: str = found["content"][0]["text"] if self._wire == "messages" else _content(found)
        return text

    async def stream(self, base: str, *, tools: bool) -> str:
        url = base + WIRES[self._wire].path
        read = _claudes_delta if self._wire == "messages" else _gpts_delta
        body = self._body(stream=True, tools=tools)
        async with self._client.stream("POST", url, json=body, headers=self._headers) as reply:
            pieces = [
                read(json.loads(line[5:]))
                async for line in reply.aiter_lines()
                if line.startswith("data:") and not line.endswith("[DONE]")
            ]
        return "".join(pieces)


def _content(found: dict[str, Any]) -> str:
    text: str = found["choices"][0]["message"]["content"]
    return text


def _claudes_delta(event: dict[str, Any]) -> str:
    delta = event.get("delta") or {}
    return delta.get("text") or delta.get("partial_json") or ""


def _gpts_delta(chunk: dict[str, Any]) -> str:
    for choice in chunk["choices"]:
        for call in choice["delta"].get("tool_calls") or ():
            return call["function"]["arguments"] or ""
        return choice["delta"].get("content") or ""
    return ""


def connect(wire: str) -> Client:
    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    if os.environ.get("ENGINE") == "aiohttp":
        from httpx_aiohttp import AiohttpTransport

        return Raw(wire, httpx.AsyncClient(transport=AiohttpTransport(limits=limits), timeout=600))
    return Raw(wire, httpx.AsyncClient(limits=limits, timeout=600))
