"""Asks a gateway over HTTP, and reads its replies with the official SDKs and with the grammar of each wire."""

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx

from tests.conformance.way_back.clients import STREAM, WHOLE, Seen
from tests.conformance.way_back.grammar import GRAMMARS
from tests.gateway.scripted import Upstream
from tests.gateway.upstream import PATIENCE

PATHS = {"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai": "/v1/responses"}
"""The clients' wires by adapter, and their addresses."""
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@dataclass(frozen=True, slots=True)
class Answered:
    """What the client got. ``broken`` tells whether the connection broke off before the end of the body."""

    wire: str
    status: int
    headers: httpx.Headers
    raw: bytes
    streamed: bool
    broken: bool = False

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[Any]:
        """The data of a stream's events."""
        lines = [line for line in self.raw.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]

    @property
    def losses(self) -> str:
        return self.headers.get("x-dragoman-losses", "")

    @property
    def seen(self) -> Seen:
        """The reply as the official SDK reads it. Raises AssertionError if the grammar of the wire is broken."""
        assert self.status == 200, self.raw
        if not self.streamed:
            return WHOLE[self.wire](self.raw)
        assert not self.broken, "the connection broke off"
        assert list(GRAMMARS[self.wire](self.raw)) == []
        return STREAM[self.wire](self.raw)


class Talk:
    """A client of the gateway. ``upstream`` is the provider behind it."""

    def __init__(self, address: str, upstream: Upstream) -> None:
        self.address = address
        self.upstream = upstream
        self._client = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ask(self, wire: str, model: str, *, stream: bool = True, **fields: Any) -> Answered:
        """Ask a question; ``fields`` replace those of the short question."""
        body = {**question(wire, model), **({"stream": True} if stream else {}), **fields}
        return self.post(wire, PATHS[wire], body, streamed=stream)

    def both(self, wire: str, model: str, **fields: Any) -> tuple[Answered, Answered]:
        """Ask for the same reply whole and as a stream."""
        return self.ask(wire, model, stream=False, **fields), self.ask(wire, model, **fields)

    def post(
        self, wire: str, path: str, body: Any, *, streamed: bool = False, headers: dict[str, str] | None = None
    ) -> Answered:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", "x-api-key": "none", **(headers or {})}
        pieces: list[bytes] = []
        with self._client.stream("POST", path, content=content, headers=sent) as response:
            broken = False
            try:
                pieces += response.iter_bytes()
            except httpx.RemoteProtocolError:
                broken = True
            return Answered(wire, response.status_code, response.headers, b"".join(pieces), streamed, broken)


def question(wire: str, model: str) -> dict[str, Any]:
    """Return a short request."""
    if wire == "openai":
        return {"model": model, "input": "How is the weather in Bern?"}
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "How is the weather in Bern?"}]}
    return body | ({"max_tokens": 100} if wire == "anthropic" else {})


def tool(wire: str, name: str = "weather", schema: Any = None) -> dict[str, Any]:
    """Return a tool in the form of the wire."""
    schema = CITY if schema is None else schema
    if wire == "anthropic":
        return {"name": name, "description": "The weather.", "input_schema": schema}
    function = {"name": name, "description": "The weather.", "parameters": schema}
    return (
        {"type": "function", "strict": False, **function}
        if wire == "openai"
        else {"type": "function", "function": function}
    )


def again(wire: str, seen: Seen, result: str = "sunny") -> dict[str, Any]:
    """Return the fields of the next request: the question, the reply as the client echoes it, and results."""
    asked: list[Any] = [{"role": "user", "content": "How is the weather in Bern?"}]
    history: list[Any] = [*asked, *seen.echo]
    if wire == "anthropic":
        results = [{"type": "tool_result", "tool_use_id": call[0], "content": result} for call in seen.calls]
        return {"messages": [*history, {"role": "user", "content": results or "Go on."}]}
    if wire == "openai":
        outputs = [{"type": "function_call_output", "call_id": call[0], "output": result} for call in seen.calls]
        return {"input": [*history, *(outputs or [{"role": "user", "content": "Go on."}])]}
    tools = [{"role": "tool", "tool_call_id": call[0], "content": result} for call in seen.calls]
    return {"messages": [*history, *(tools or [{"role": "user", "content": "Go on."}])]}
