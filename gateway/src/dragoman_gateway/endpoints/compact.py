"""`/v1/responses/compact`: a conversation becomes one item that stands for it.

A provider of the wire that has the endpoint does it itself. Otherwise the model writes a summary, which travels as an
item that only this gateway can read, and comes back as the beginning of the next request.
"""

import time
from contextlib import suppress
from dataclasses import replace

from dragoman import Message
from dragoman.errors import NotFoundError
from dragoman_gateway.endpoints.compaction import compaction_item, expanded_summary, user_message
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.json import dumps, loads
from dragoman_gateway.turn.answer import answer_whole, whole_response
from dragoman_gateway.turn.replies import json_response
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
            with suppress(NotFoundError):  # a server of this wire without this endpoint
                response = whole_response(own, await own.ask())
                own.note_end()
                await exchange.reply(response)
                return
        given = request.fields.get("input")
        items = given if isinstance(given, list) else [user_message(str(given or ""))]
        fields = {**request.fields, "input": [*items, user_message(_PROMPT)], "stream": False, "store": False}
        asked = replace(request, stream=False, fields=fields, body=dumps(fields))
        turn = Turn(asked, resources)
        try:
            summary = await answer_whole(turn, exchange.receive)
            if summary is not None and summary.status == 200:
                await turn.note_labels(Message.user(expanded_summary(turn.reply.text)))
        finally:
            turn.note_end()
        if summary is None:
            return
        if summary.status == 200:
            message, read = turn.reply, turn.read
            written = read.adapter.to_wire_response(message, read.context)
            compaction = {
                "id": f"resp_{message.id}",
                "object": "response.compaction",
                "created_at": int(time.time()),
                "output": [compaction_item(message.id, message.text, turn.request, resources.state_sealer)],
                "usage": loads(written.body).get("usage"),
            }
            summary = json_response(request.wire, request.request_id, dumps(compaction))
        await exchange.reply(summary)
