"""Dragoman as programs use it: a session of its own for each question, under one client."""

from functools import cache
from typing import Any

from dragoman import AdapterOptions, AsyncClient, TextDelta
from dragoman import Client as SyncClient
from dragoman.canonical.events import ToolUseInputDelta
from dragoman.canonical.tools import ToolDefinition
from dragoman.tools.tool import Tool
from tests.benchmarks.peers.tasks import DESCRIPTION, KEY, PARAMETERS, QUESTION, Client
from tests.benchmarks.wires import WIRES


def _write(**_: Any) -> str:
    raise AssertionError("no call is run: the loop is left at the end of the reply")


_TOOL = Tool(
    ToolDefinition(name="write", description=DESCRIPTION, input_schema=PARAMETERS, requires_workspace=False), _write
)


class Sessions:
    def __init__(self, wire: str) -> None:
        self._model = WIRES[wire].model
        suffix = "/v1" if wire in ("responses", "chat") else ""
        provider = self._model.partition(":")[0]

        def settings(base: str) -> dict[str, Any]:
            options = AdapterOptions(max_output_tokens=100)
            return {"providers": {provider: {"base_url": base + suffix, "api_key": KEY}}, "options": options}

        self._client = cache(lambda base: AsyncClient(**settings(base)))
        self._sync_client = cache(lambda base: SyncClient(**settings(base)))

    async def call(self, base: str) -> str:
        async with self._client(base).session(self._model) as session:
            return (await session.ask(QUESTION)).text

    def call_sync(self, base: str) -> str:
        with self._sync_client(base).session(self._model) as session:
            return session.ask(QUESTION).text

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        session = self._client(base).session(self._model, tools=[_TOOL] if tools else [])
        async with session, session.stream(QUESTION) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, ToolUseInputDelta):
                    pieces.append(event.partial_json)
                elif event.type == "message_complete":
                    break
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Sessions(wire)
