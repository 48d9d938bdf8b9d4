"""The embeddings of a scripted provider: the same text has the same vector, in every process."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    NativeEmbeddings,
)
from dragoman.adapter.wire import WireRequest, WireResponse

PATH = "/embed"
DIMENSIONS = 16
"""The length of a vector if a request asks for no other."""
_MAX_DIMENSIONS = 4096


class ScriptedEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable(
        {
            "default": {
                "dimensions": DIMENSIONS,
                "dimension_range": [1, _MAX_DIMENSIONS],
                "max_inputs": 100,
                "purposes": {"query": "query", "document": "document"},
                "normalized": "always",
            }
        }
    )

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        dimensions = options.dimensions or DIMENSIONS
        return PATH, {"texts": list(inputs), "dimensions": dimensions, "purpose": self.purpose_word(options)}

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        return NativeEmbeddings(native.get("vectors"), self.read_usage(native.get("usage"), "input_tokens"))


def answer(request: WireRequest) -> bytes:
    """Return the reply: a vector of length 1 for each text, and a token for each word."""
    body = wirejson.loads_object(request.body)
    texts = body["texts"]
    tokens = sum(max(1, len(text.split())) for text in texts)
    vectors = [_vector(text, body["dimensions"]) for text in texts]
    return wirejson.dumps({"vectors": vectors, "usage": {"input_tokens": tokens}})


def _vector(text: str, dimensions: int) -> list[float]:
    data = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(dimensions)
    numbers = [byte - 127.5 for byte in data]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]
