"""Embeds the inputs of a client's request, under the limits, budgets, policy and store of its caller; and OpenAI's
embeddings (https://platform.openai.com/docs/api-reference/embeddings)."""

import base64
import sys
from array import array
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.routing import Route

from dragoman import Loss, Message, Role
from dragoman.answers import Attempt, LossKind, drive_async
from dragoman.blocks import ImageBlock, TextBlock
from dragoman.embeddings import EmbeddingInput, Embeddings, PartialEmbeddings, Purpose, Truncate
from dragoman.errors import DragomanError, InvalidRequestError
from dragoman.limits import MaxUsage
from dragoman.limits.reservation import usage_of
from dragoman.messages import MessageMetadata, TokenUsage, Usage
from dragoman.session.effects import Broken, Failed, Perform, Replied, SendOutcome
from dragoman_gateway.bodies.read import named_model
from dragoman_gateway.endpoints.endpoint import Exchange
from dragoman_gateway.errors import ClientError
from dragoman_gateway.models import Deployment
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.turn.policy import client_of
from dragoman_gateway.turn.request import RequestResources
from dragoman_gateway.vendors.service import Service
from dragoman_gateway.wires import CHAT

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


def read_fields(fields: Mapping[str, Any], own: Collection[str]) -> tuple[str, int | None, dict[str, Any]]:
    """Return the model, the dimensions, and the fields that are not among the vendor's ``own``. Raises ClientError."""
    model, dimensions = named_model(fields), fields.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ClientError("dimensions: a positive whole number is required")
    return model, dimensions, {name: value for name, value in fields.items() if name not in own and value is not None}


async def embed(exchange: Exchange, request: EmbeddingRequest) -> Embeddings:
    """Return the vectors, from the first deployment of the model that makes them.

    Raises RequestError for inputs that the model does not take, InvalidRequestError for a model without embeddings, and
    what `AsyncClient.embed` raises.
    """
    resources = await exchange.generation.resources_for(request.model, exchange.caller)
    left = list(resources.in_order())
    while True:
        deployment = left.pop(0)
        exchange.record.model = deployment.model
        try:
            embeddings = await _embed_at(exchange, deployment, resources, request)
        except DragomanError as error:
            resources.deployments.report(deployment, error)
            if not left or not resources.quota.allows(error):
                raise
        else:
            resources.deployments.report(deployment, None)
            return embeddings


async def _embed_at(
    exchange: Exchange, deployment: Deployment, resources: RequestResources, request: EmbeddingRequest
) -> Embeddings:
    adapter = deployment.adapter
    if adapter.embeddings is None:
        raise InvalidRequestError(
            f"the model {request.model!r:.120} has no embeddings: name an embedding model", status=400
        )
    known = adapter.provider in request.providers
    client = client_of(
        resources.client_for(deployment.client), exchange.caller, exchange.record.request_id, exchange.headers
    )
    embeddings: Embeddings | None = None

    async def send() -> SendOutcome:
        nonlocal embeddings
        try:
            embeddings = await client.embed(
                deployment.model,
                request.inputs,
                dimensions=request.dimensions,
                purpose=request.purpose,
                truncate=request.truncate,
                extra=dict(request.native) if known else {},
                user_id=exchange.caller.user,
                team_id=exchange.caller.team,
            )
        except DragomanError as error:
            done: PartialEmbeddings | None = error.embedded
            if done is None or not done.usage.total_tokens:
                return Failed(error)
            return Broken(error, _receipt(done.usage), seen=False)
        return Replied(_receipt(embeddings.usage))

    def attempt(observers: Any, stages: Any) -> Generator[Any, Any, SendOutcome]:
        outcome: SendOutcome = yield Perform(send, send)  # the gateway asks in an event loop alone
        return outcome

    def measure() -> MaxUsage:
        content = [each if isinstance(each, ImageBlock) else TextBlock(text=each) for each in request.inputs]
        tokens = adapter.estimate_input_tokens([Message.user(content)], ())
        return MaxUsage(str(adapter.model_id), TokenUsage(input_tokens=tokens))

    outcome = await drive_async(Attempt(resources.governors, measure).run(attempt))
    usage = usage_of(outcome)
    if usage is not None:
        exchange.record.usages = (*exchange.record.usages, usage)
    if embeddings is None:
        raise outcome.error  # type: ignore[union-attr]  # only what failed or broke has none
    unsent = () if known else tuple(request.native)
    lost = tuple(Loss(LossKind.OPTION, "", -1, f"{name}: {_REASON}", path=name) for name in unsent)
    exchange.record.losses = (*exchange.record.losses, *embeddings.losses, *lost)
    return embeddings


def _receipt(usage: Usage) -> Message:
    """Return a message without content, for what counts its usage."""
    return Message(role=Role.ASSISTANT, content=(), metadata=MessageMetadata(usage=usage))


_OWN = frozenset({"model", "input", "dimensions", "encoding_format"})
_PROVIDERS = ("openai", "openai-chat", "azure-openai")


def routes(gateway: Gateway) -> list[Route]:
    """Return the route of OpenAI's clients."""
    service = Service(gateway, CHAT, answer, endpoint=ENDPOINT)
    return [Route("/v1/embeddings", service, methods=["POST"])]


async def answer(exchange: Exchange, fields: dict[str, Any]) -> dict[str, Any]:
    """Return one vector for each text, as numbers or as base64 of 32-bit floats.

    Raises ClientError for a request that no embedding model can answer.
    """
    model, dimensions, native = read_fields(fields, _OWN)
    form = fields.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise ClientError("encoding_format: 'float' or 'base64' is required")
    texts = _read_texts(fields.get("input"))
    request = EmbeddingRequest(model=model, inputs=texts, dimensions=dimensions, native=native, providers=_PROVIDERS)
    embeddings = await embed(exchange, request)
    write = _to_base64 if form == "base64" else array.tolist
    tokens = embeddings.usage.prompt_tokens
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": write(vector)}
            for index, vector in enumerate(embeddings)
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _read_texts(value: Any) -> list[str]:
    """Return the texts of the field ``input``. Raises ClientError for tokens: only OpenAI's own models read them."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not value:
        raise ClientError("input: a string or a list of strings is required")
    if all(isinstance(each, str) for each in value):
        return value
    tokens = [token for each in value for token in (each if isinstance(each, list) else (each,))]
    if all(isinstance(token, int) for token in tokens):
        raise ClientError("input: tokens are not possible here, because each model has its own: send texts")
    raise ClientError("input: a string or a list of strings is required")


def _to_base64(vector: "array[float]") -> str:
    """Return the floats in little-endian order."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return base64.b64encode(vector).decode("ascii")
