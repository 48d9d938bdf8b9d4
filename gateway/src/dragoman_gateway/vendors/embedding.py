"""Embeds the inputs of a client's request, under the limits, budgets, policy and store of its caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman import AsyncClient, Loss, Message, get_adapter
from dragoman.answers import LossKind
from dragoman.blocks import ImageBlock, TextBlock
from dragoman.embeddings import EmbeddingInput, Embeddings, PartialEmbeddings, Purpose, Truncate
from dragoman.errors import DragomanError, InvalidRequestError
from dragoman.messages import TokenUsage
from dragoman.pricing import price_table
from dragoman_gateway.keys.admission import MaxUse, Ticket
from dragoman_gateway.models.deployments import Deployment
from dragoman_gateway.vendors.service import Call

ENDPOINT = "embeddings"
"""The name of these endpoints for a key's rights."""
_REASON = "the provider of the model does not know the field"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """What a client asks for. ``native`` are fields that only ``providers`` know; for any other they are losses."""

    model: str
    inputs: Sequence[EmbeddingInput] = field(repr=False)
    dimensions: int | None = None
    purpose: Purpose | None = None
    truncate: Truncate | None = None
    native: Mapping[str, Any] = field(default_factory=dict)
    providers: Sequence[str] = ()


async def embed(call: Call, request: EmbeddingRequest) -> Embeddings:
    """Return the vectors, from the first place of the model that makes them.

    Raises RequestError for inputs that the model does not take, InvalidRequestError for a model that embeds nothing,
    and what `AsyncClient.embed` raises.
    """
    means = await call.means_for(request.model, ENDPOINT)
    places = list(means.places())
    while True:
        place = places.pop(0)
        call.record.model = place.model
        try:
            embeddings = await _embed_at(call, place, means.client_for(place.client), request)
        except DragomanError as error:
            means.report(place, error)
            if not places or not means.may_ask_again(error):
                raise
        else:
            means.report(place, None)
            return embeddings


async def _embed_at(call: Call, place: Deployment, client: AsyncClient, request: EmbeddingRequest) -> Embeddings:
    provider = get_adapter(place.model).provider
    if get_adapter(place.model).embeddings is None:
        raise InvalidRequestError(
            f"the model {request.model!r:.120} embeds nothing: name an embedding model", status=400
        )
    known = provider in request.providers
    ticket = await _admit(call, place.model, client, request)
    try:
        embeddings = await client.embed(
            place.model,
            request.inputs,
            dimensions=request.dimensions,
            purpose=request.purpose,
            truncate=request.truncate,
            extra=dict(request.native) if known else {},
        )
    except BaseException as error:
        await _settle_partial(call, ticket, getattr(error, "embedded", None))
        raise
    if ticket is not None:
        await ticket.settle(embeddings.usage)
    unsent = () if known else tuple(request.native)
    lost = tuple(Loss(LossKind.OPTION, "", -1, f"{name}: {_REASON}", path=name) for name in unsent)
    call.record.usages = (*call.record.usages, embeddings.usage)
    call.record.losses = (*call.record.losses, *embeddings.losses, *lost)
    return embeddings


async def _admit(call: Call, model: str, client: AsyncClient, request: EmbeddingRequest) -> Ticket | None:
    """Reserve what the request could use of the budgets and limits of a key, its user and its team."""
    if call.caller.key_id is None:
        return None

    def find_use() -> MaxUse:
        content = [each if isinstance(each, ImageBlock) else TextBlock(text=each) for each in request.inputs]
        tokens = get_adapter(model).estimate_input_tokens([Message.user(content)], ())
        return MaxUse(model, TokenUsage(input_tokens=tokens), 0)

    prices = client.config.prices or price_table()
    return await call.gateway.services.admission.admit(call.caller, find_use, prices)


async def _settle_partial(call: Call, ticket: Ticket | None, done: PartialEmbeddings | None) -> None:
    """Count and charge what the requests used that had ended before one failed."""
    if done is not None and done.usage.total_tokens:
        call.record.usages = (*call.record.usages, done.usage)
        if ticket is not None:
            await ticket.settle(done.usage)
    elif ticket is not None:
        ticket.release()
