"""Dragoman, by an adapter and a transport: what a session sends and reads, without its history and its store."""

from functools import cache

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, WireRequest, get_adapter
from dragoman.canonical.events import MessageComplete, TextDelta, ToolUseInputDelta
from dragoman.transport import AsyncHttpTransport, HttpTransport
from tests.benchmarks.peers.tasks import DESCRIPTION, KEY, PARAMETERS, QUESTION, Client
from tests.benchmarks.wires import WIRES

_TOOL = ToolDefinition(name="write", description=DESCRIPTION, input_schema=PARAMETERS)


class Ours:
    def __init__(self, wire: str) -> None:
        self._adapter = get_adapter(WIRES[wire].model)
        suffix = "/v1" if wire in ("responses", "chat") else ""
        self._transport = cache(lambda base: AsyncHttpTransport(base_url=base + suffix, api_key=KEY))
        self._sync_transport = cache(lambda base: HttpTransport(base_url=base + suffix, api_key=KEY))
        self._messages = [Message.user(QUESTION)]

    def _request(self, *, stream: bool, tools: bool = False) -> tuple[WireRequest, RequestContext]:
        context = RequestContext.for_model(str(self._adapter.model_id))
        options = AdapterOptions(max_output_tokens=100, stream=stream, context=context)
        return self._adapter.to_wire(self._messages, [_TOOL] if tools else [], options), context

    async def call(self, base: str) -> str:
        request, context = self._request(stream=False)
        reply = await self._transport(base).send(self._adapter, request)
        return self._adapter.from_wire_response(reply, context).text

    def call_sync(self, base: str) -> str:
        request, context = self._request(stream=False)
        reply = self._sync_transport(base).send(self._adapter, request)
        return self._adapter.from_wire_response(reply, context).text

    async def stream(self, base: str, *, tools: bool) -> str:
        pieces: list[str] = []
        request, context = self._request(stream=True, tools=tools)
        async with self._transport(base).stream(self._adapter, request) as reply:
            async for event in self._adapter.stream_response(reply.chunks, context):
                if isinstance(event, TextDelta):
                    pieces.append(event.text)
                elif isinstance(event, ToolUseInputDelta):
                    pieces.append(event.partial_json)
        assert isinstance(event, MessageComplete)
        return "".join(pieces)


def connect(wire: str) -> Client:
    return Ours(wire)
