"""OpenAI's embeddings (https://platform.openai.com/docs/api-reference/embeddings)."""

import base64
import sys
from array import array
from typing import Any

from starlette.routing import Route

from dragoman_gateway.errors import ClientError
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.vendors.embedding import ENDPOINT, EmbeddingRequest, embed
from dragoman_gateway.vendors.service import Call, Service
from dragoman_gateway.wires import chat

_OWN = frozenset({"model", "input", "dimensions", "encoding_format"})
_PROVIDERS = ("openai", "openai-chat", "azure-openai")


def routes(gateway: Gateway) -> list[Route]:
    """Return the route of OpenAI's clients."""
    service = Service(gateway, chat.WIRE, answer, endpoint=ENDPOINT)
    return [Route("/v1/embeddings", service, methods=["POST"])]


async def answer(call: Call) -> dict[str, Any]:
    """Return one vector for each text, as numbers or as base64 of 32-bit floats.

    Raises ClientError for a request that no embedding model can answer.
    """
    fields = call.fields
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise ClientError("model: a string is required")
    form = fields.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise ClientError("encoding_format: 'float' or 'base64' is required")
    dimensions = fields.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise ClientError("dimensions: a positive whole number is required")
    native = {name: value for name, value in fields.items() if name not in _OWN and value is not None}
    texts = _read_texts(fields.get("input"))
    request = EmbeddingRequest(model=model, inputs=texts, dimensions=dimensions, native=native, providers=_PROVIDERS)
    embeddings = await embed(call, request)
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
    if all(isinstance(each, int) or _is_token_list(each) for each in value):
        raise ClientError("input: tokens are not possible here, because each model has its own: send texts")
    raise ClientError("input: a string or a list of strings is required")


def _is_token_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(token, int) for token in value)


def _to_base64(vector: "array[float]") -> str:
    """Return the floats in little-endian order."""
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return base64.b64encode(vector).decode("ascii")
