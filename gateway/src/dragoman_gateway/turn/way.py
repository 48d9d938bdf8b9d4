"""The ways of a deployment that is asked without a session; `dragoman_gateway.turn.in_session.InSession` is the third.

Each way has the same members: `ask` returns the whole reply as the client gets it, and `stream` yields it. No bytes are
yielded before the reply has begun; empty ones say that it has, and that its content is held back. Both raise what the
request raises. The attributes:

- ``complete``: whether a stream has its end, which is said before its last bytes are yielded.
- ``relays``: whether the provider has the client's wire, and gets the client's bytes.
- ``passes``: whether the bytes of the reply are the provider's.
- ``keeps_request``: whether the request is needed until the end of the reply.
- ``hides_usage``: whether the counts of a stream were asked for here, and not by the client.
- ``usages``, ``losses`` and ``headers``: what all attempts used, what the request lost, and the headers of the
  provider's reply.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from dragoman import Adapter, AsyncClient, Message, RequestContext, WireRequest, WireResponse
from dragoman.answers import ProviderRequest
from dragoman.pricing import price_table
from dragoman_gateway.turn.request import ReadRequest, refuse_losses


class Through(ProviderRequest):
    """A provider of the client's wire gets the client's bytes, and the client gets the provider's. The messages are
    read only if something has to measure them."""

    relays = passes = True
    keeps_request = False
    hides_usage = False

    async def ask(self) -> WireResponse:
        await self.send()
        assert self.response is not None
        return self.response


class Direct(ProviderRequest):
    """A provider of another wire is asked without a session: for texts, which need nothing that only a session does."""

    relays = passes = hides_usage = False
    keeps_request = True
    reply: Message
    """The whole reply, after `ask`."""

    def __init__(self, read: ReadRequest, target: Adapter, client: AsyncClient) -> None:
        read.context.prices = client.config.prices or price_table()
        super().__init__(
            client.config,
            target,
            partial(_encode, target, read),  # not a method: what refers to itself waits for the collector
            governors=read.resources.governors,
            measure=partial(read.measure, target),
            session_id=read.context.session_id,
            tool_ids=read.context.tool_ids,
        )
        self._request = read

    async def ask(self) -> WireResponse:
        self.reply = await self.send()
        return self._request.write(self.reply)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the reply in the client's wire."""
        async with aclosing(self.batches()) as batches:
            async for events in batches:
                yield b"".join(map(self._request.encoder.feed, events))
                del events


def _encode(target: Adapter, read: ReadRequest, context: RequestContext) -> WireRequest:
    """Encode an attempt. Raises InvalidRequestError."""
    if (kept := read.request.kept) is not None:
        context.encode_cache = kept.encodings
    prices = read.context.prices or price_table()
    messages, tools, options = read.for_other_wire((read.messages, read.tools, read.read_options), target, prices)
    request = target.to_wire(messages, tools, options.with_context(context))
    if read.resources.strict:
        refuse_losses(request)
    return request
