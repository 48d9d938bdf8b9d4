"""A provider on a port of 127.0.0.1 that answers as its script says, in the wire of the path that is asked."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dragoman import AsyncClient
from dragoman.testing.sample_reply import SampleCall, SampleReply
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving
from tests.laws.wires import handwritten_anthropic, handwritten_chat, handwritten_google, handwritten_responses

WIRES = {
    "anthropic": handwritten_anthropic.WIRE,
    "openai-chat": handwritten_chat.WIRE,
    "openai": handwritten_responses.WIRE,
    "google": handwritten_google.WIRE,
}
"""The wires that the provider answers in, by adapter."""

MODELS = {
    "messages-model": "anthropic:claude-opus-4-8",
    "chat-model": "openai-chat:gpt-4.1",
    "responses-model": "openai:gpt-5.4",
    "google-model": "google:gemini-3-pro-preview",
    "mistral-model": "mistral:mistral-large-latest",
    "deepseek-model": "deepseek:deepseek-v4-flash",
}
"""Names that clients ask for, and the models behind them."""

EVENTS, JSON = "text/event-stream", "application/json"


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the provider got it."""

    path: str
    headers: dict[str, str]
    raw: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def wire(self) -> str:
        """The adapter of the wire that was asked."""
        for ending, wire in (
            ("/chat/completions", "openai-chat"),
            ("/responses", "openai"),
            ("/messages", "anthropic"),
        ):
            if self.path.endswith(ending):
                return wire
        return "google"

    @property
    def is_streamed(self) -> bool:
        return ":stream" in self.path or self.body.get("stream") is True


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its pieces are sent one after the other, and a number is a pause in seconds. ``cut`` breaks the
    connection off instead of ending the body. ``before`` is the pause before the status."""

    pieces: Iterable[bytes | float]
    status: int = 200
    media_type: str = EVENTS
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    before: float = 0.0


Script = Callable[[Received], Answer]


class Upstream:
    """Answers by the script; by default, every request gets a short text."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.left: list[float] = []
        """When a client left before the end of its answer."""
        self.script: Script = says("It rains in Bern.")

    def answer_in_turn(self, *answers: Answer) -> None:
        """Answer the next requests with these, and all later ones with the last."""
        waiting = list(answers)
        self.script = lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]

    @property
    def body(self) -> Any:
        """The body of the last request."""
        return self.requests[-1].body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        raw, more = b"", True
        while more:
            message = await receive()
            raw, more = raw + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"] + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
        self.requests.append(request := Received(path.partition("?")[0], headers, raw))
        watch = asyncio.ensure_future(self._watch(receive))
        try:
            await self._answer(_count(request) or self.script(request), send, watch)
        finally:
            watch.cancel()

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.append(time.monotonic())

    async def _answer(self, answer: Answer, send: Any, watch: "asyncio.Future[None]") -> None:
        await asyncio.wait([watch], timeout=answer.before or 0)
        headers = [(b"content-type", answer.media_type.encode())]
        headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        for piece in answer.pieces:
            if watch.done():
                return
            if isinstance(piece, bytes):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            else:
                await asyncio.wait([watch], timeout=piece)
        if answer.cut:
            raise ConnectionAbortedError("the script breaks the connection off")
        await send({"type": "http.response.body", "body": b""})


def _count(request: Received) -> Answer | None:
    """Return the tokens of a request to one of the providers' counters; None for any other request."""
    names = {"/count_tokens": "input_tokens", "/input_tokens": "input_tokens", ":countTokens": "totalTokens"}
    name = next((name for ending, name in names.items() if request.path.endswith(ending)), None)
    return Answer([json.dumps({name: len(request.raw) // 4}).encode()], media_type=JSON) if name else None


def reply(
    *text: str, thinking: tuple[str, ...] = (), calls: tuple[tuple[str, Any], ...] = (), **counts: Any
) -> SampleReply:
    """Return the content of a reply. ``calls`` are names and inputs."""
    found = tuple(
        SampleCall(f"c{number}", name, value, _halves(json.dumps(value, ensure_ascii=False)))
        for number, (name, value) in enumerate(calls)
    )
    tokens: dict[str, Any] = {"truncated": False, "input_tokens": 20, "cached_tokens": 0, "output_tokens": 9, **counts}
    return SampleReply(thinking, text, found, **tokens)


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def answer_with(sample: SampleReply) -> Script:
    """Answer with that content in the wire of the request, whole or as a stream."""

    def script(request: Received) -> Answer:
        wire = WIRES[request.wire]
        if request.is_streamed:
            return Answer([wire.stream(sample)])
        return Answer([wire.whole(sample)], media_type=JSON)

    return script


def says(*text: str) -> Script:
    return answer_with(reply(*text))


def sse(*events: Any, named: bool = False) -> list[bytes | float]:
    """Server-sent events, one piece each; a number is a pause, bytes are sent as they are."""
    pieces: list[bytes | float] = []
    for event in events:
        if isinstance(event, (bytes, float)):
            pieces.append(event)
            continue
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        name = f"event: {event['type']}\n" if named else ""
        pieces.append(f"{name}data: {data}\n\n".encode())
    return pieces


def chat_events(*deltas: Any, finish: str | None = "stop", usage: Any = None, done: bool = True) -> list[bytes | float]:
    """A stream of Chat Completions with these deltas, which may be whole chunks."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    chunks: list[Any] = [
        delta if not isinstance(delta, dict) or "choices" in delta or "error" in delta
        else {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]  # fmt: skip
    if finish is not None:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        chunks.append({**head, "choices": [], "usage": usage})
    return sse(*chunks, *(["[DONE]"] if done else []))


def chat_call(index: int, arguments: str, *, call_id: str | None = None, name: str | None = None) -> dict[str, Any]:
    """A delta with a piece of a call."""
    function: dict[str, Any] = {"arguments": arguments} | ({"name": name} if name else {})
    call: dict[str, Any] = {"index": index, "function": function}
    return {"tool_calls": [call | ({"id": call_id, "type": "function"} if call_id else {})]}


CHAT_USAGE = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}


def provider_bases(address: str) -> dict[str, str]:
    """Return the base URLs of all providers, which are one server."""
    bases = dict.fromkeys(("openai", "openai-chat", "mistral", "deepseek"), f"{address}/v1")
    return {**bases, "anthropic": address, "google": address}


@contextmanager
def gateway_before(upstream: Upstream, **settings: Any) -> Iterator[str]:
    """Yield the address of a gateway whose models are all the script's."""
    with serving(upstream) as provider:
        providers: Any = {
            name: {"base_url": base, "api_key": f"sk-provider-{name}", "max_retries": 0}
            for name, base in provider_bases(provider).items()
        }
        client = AsyncClient(providers=providers)
        with serving(create_app(GatewaySettings(**{"models": MODELS, **settings}), client=client)) as address:
            yield address
