"""Recorded replies of Bedrock's embedding models are read, and our requests are those of the recorded clients."""

import json
from typing import Any

import pytest

from dragoman.adapter.wire import WireResponse
from dragoman.embeddings import EmbeddingOptions, embedding_adapter
from tests.exchanges import RecordedExchange, load_or_skip

pytestmark = pytest.mark.exchanges

_OPTIONAL = {"normalize", "max_tokens", "embedding_types", "truncate"}
"""Fields that recorded clients write and we leave to their defaults, and fields of ours that they leave out."""


def test_recorded_embeddings() -> None:
    """Each recorded request is written again from its texts, and its reply is read to vectors of the right length."""
    exchanges = [each for each in load_or_skip("bedrock") if "embed" in each.url_path and each.status == 200]
    assert len(exchanges) >= 20
    for each in exchanges:
        model = each.url_path.split("/")[2].replace("%3A", ":")
        adapter = embedding_adapter(f"bedrock:{model}")
        inputs, options = read_request(each)
        wire = adapter.to_wire(inputs, options)
        ours, theirs = json.loads(wire.body), dict(each.request)
        assert wire.path.replace("%3A", ":") == each.url_path.replace("%3A", ":")
        assert without(ours) == without(theirs), each.id
        reply = adapter.from_wire_response(WireResponse(200, each.body, each.headers), inputs, options)
        assert len(reply.vectors) == len(inputs)
        norms = [sum(number * number for number in vector) ** 0.5 for vector in reply.vectors]
        if theirs.get("normalize") is not False and (known := adapter.capabilities.normalized) is not None:
            assert all((abs(norm - 1) < 1e-3) == (known == "always") for norm in norms), each.id


def read_request(each: RecordedExchange) -> tuple[list[str], EmbeddingOptions]:
    """The inputs and options of a recorded request."""
    body = each.request
    if "singleEmbeddingParams" in body:
        fields = body["singleEmbeddingParams"]
        return [fields["text"]["value"]], EmbeddingOptions(purpose="query", dimensions=fields.get("embeddingDimension"))
    purpose: Any = "query" if body.get("input_type") == "search_query" else None
    texts = body["texts"] if "texts" in body else [body["inputText"]]
    return texts, EmbeddingOptions(purpose=purpose, dimensions=body.get("dimensions") or body.get("output_dimension"))


def without(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in _OPTIONAL}
