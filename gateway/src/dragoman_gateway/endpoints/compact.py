"""`/v1/responses/compact`: a conversation becomes one item that stands for it.

A provider of the wire that has the endpoint does it itself. Otherwise the model writes a summary, which travels as an
item that only this gateway can read, and comes back as the beginning of the next request.
"""

import time
from dataclasses import replace

from dragoman import Message
from dragoman.errors import NotFoundError
from dragoman_gateway.endpoints.compaction import compaction_item, expanded_summary, user_message
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.json import dumps, loads
from dragoman_gateway.turn.answer import answer_whole, whole_response
from dragoman_gateway.turn.replies import Response, named
from dragoman_gateway.turn.request import ClientRequest, RequestResources
from dragoman_gateway.turn.turn import Turn

PATH = "/responses/compact"

_PROMPT = (
    "Summarize the conversation above, so that it can go on from your summary alone. Keep what was asked, what was"
    " decided and why, facts, names, numbers, paths and tool results that may still matter, and what is still open."
    " Write the summary only; answer nothing and call no tool."
)


class CompactEndpoint(Endpoint):
    """The endpoint that shortens a conversation."""

    async def respond(self, exchange: Exchange) -> None:
        request, resources = await self.read(exchange)
        own = Turn(request, resources, path=PATH)
        if own.may_pass:
            try:
                response = whole_response(own, await own.ask())
            except NotFoundError:  # a server of this wire without this endpoint
                pass
            else:
                own.note_end()
                await exchange.reply(response)
                return
        await self._summarize(exchange, request, resources)

    async def _summarize(self, exchange: Exchange, request: ClientRequest, resources: RequestResources) -> None:
        given = request.fields.get("input")
        items = given if isinstance(given, list) else [user_message(str(given or ""))]
        fields = {**request.fields, "input": [*items, user_message(_PROMPT)], "stream": False, "store": False}
        asked = replace(request, stream=False, fields=fields, body=dumps(fields))
        turn = Turn(asked, resources)
        response = await answer_whole(turn, exchange.receive)
        try:
            if response is not None and response.status == 200:
                await turn.note_labels(Message.user(expanded_summary(turn.reply.text)))
        finally:
            turn.note_end()
        if response is None:
            return
        if response.status == 200:
            message, read = turn.reply, turn.read
            written = read.adapter.to_wire_response(message, read.context)
            compaction = {
                "id": f"resp_{message.id}",
                "object": "response.compaction",
                "created_at": int(time.time()),
                "output": [compaction_item(message.id, message.text, turn.request, resources.state_sealer)],
                "usage": loads(written.body).get("usage"),
            }
            head = [*named(request.wire, request.request_id), (b"content-type", b"application/json")]
            response = Response(200, head, dumps(compaction))
        await exchange.reply(response)
