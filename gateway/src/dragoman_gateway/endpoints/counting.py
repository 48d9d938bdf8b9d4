"""Counts the tokens of a request: by the provider, or as an estimate that errs upward."""

import math
from dataclasses import replace
from typing import Any

from dragoman import RequestContext
from dragoman.answers import ClientToolIds
from dragoman.errors import ProviderError
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.json import dumps
from dragoman_gateway.turn.policy import client_of
from dragoman_gateway.turn.recall import Recall
from dragoman_gateway.turn.replies import Headers, json_response
from dragoman_gateway.wires import RESPONSES

_MARGIN = 1.1
"""An estimate may be a tenth too low; a client that believes it would meet the limit of the model unwarned."""
_ESTIMATED = (b"x-dragoman-estimated", b"input_tokens")
_NO_ADDRESS = frozenset({404, 405, 501})
"""The statuses with which a server of a provider's wire reports that it does not count."""


class CountEndpoint(Endpoint):
    """The endpoint of one wire that counts. Nothing is billed, and budgets do not count it."""

    is_billed = False

    async def respond(self, exchange: Exchange) -> None:
        request, resources = await self.read(exchange)
        deployment = resources.in_order()[0]
        context = RequestContext(model=deployment.model, tool_ids=ClientToolIds(), state_sealer=resources.state_sealer)
        request.add_kept(context)
        messages, tools, options = request.wire.adapter(request.model).from_wire_request(request.fields, context)
        found, headers = resources.client_for(deployment.client), request.headers
        client = client_of(found, request.caller, request.request_id, headers)
        if client.config.policy is not None and resources.labels is not None:
            recall = Recall(resources.labels, request.caller.owner, context, request.wire.provider, client)
            if labels := await recall.labels(messages, resources.settings.unknown_history):
                metadata = messages[0].metadata.model_copy(update={"labels": labels})  # for the whole conversation
                messages = [messages[0].model_copy(update={"metadata": metadata}), *messages[1:]]
        adapter, tokens = deployment.adapter, None
        more: Headers = []
        if adapter.services is not None and "count_tokens" in adapter.services.offers:
            async with client.services(str(adapter.model_id), options=replace(options, context=None)) as services:
                try:
                    tokens = await services.count_tokens(messages, tools=tools)
                except ProviderError as error:
                    if error.status not in _NO_ADDRESS:
                        raise
        if tokens is None:
            more.append(_ESTIMATED)
            tokens = math.ceil(adapter.estimate_input_tokens(messages, tools) * _MARGIN)
        await exchange.reply(json_response(self._wire, exchange.request_id, dumps(self.write_count(tokens)), more))

    def write_count(self, tokens: int) -> dict[str, Any]:
        """Return the reply of the wire."""
        kind = {"object": "response.input_tokens"} if self._wire is RESPONSES else {}
        return {**kind, "input_tokens": tokens}
