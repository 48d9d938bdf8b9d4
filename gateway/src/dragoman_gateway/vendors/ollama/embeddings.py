"""Ollama's embed (https://docs.ollama.com/api/embed), and the older embeddings."""

import time
from typing import Any

from dragoman.embeddings import Embeddings
from dragoman_gateway.errors import ClientError
from dragoman_gateway.vendors.embedding import EmbeddingRequest, embed, read_fields
from dragoman_gateway.vendors.ollama.models import plain_name
from dragoman_gateway.vendors.service import Call

_OWN = frozenset({"model", "input", "prompt", "truncate", "dimensions"})


async def answer(call: Call) -> dict[str, Any]:
    """Return one vector for each text. An input that is too long is cut, unless the client forbids it."""
    texts = call.fields.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise ClientError("input: a string or a list of strings is required")
    started = time.perf_counter_ns()
    embeddings = await _embed(call, texts)
    return {
        "model": call.fields["model"],
        "embeddings": [vector.tolist() for vector in embeddings],
        "total_duration": time.perf_counter_ns() - started,
        "prompt_eval_count": embeddings.usage.prompt_tokens,
    }


async def answer_one(call: Call) -> dict[str, Any]:
    """Return the vector of one text."""
    if not isinstance(prompt := call.fields.get("prompt"), str):
        raise ClientError("prompt: a string is required")
    (vector,) = await _embed(call, [prompt])
    return {"embedding": vector.tolist()}


async def _embed(call: Call, texts: list[str]) -> Embeddings:
    model, dimensions, native = read_fields(call.fields, _OWN)
    request = EmbeddingRequest(
        model=plain_name(model),
        inputs=texts,
        dimensions=dimensions,
        truncate=None if call.fields.get("truncate") is False else "end",
        native=native,
        providers=("ollama",),
    )
    return await embed(call, request)
