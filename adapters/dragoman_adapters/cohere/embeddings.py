"""Embeddings of Cohere's API, version 2 (https://docs.cohere.com/reference/embed)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    NativeEmbeddings,
)
from dragoman.adapter.wire import WireResponse

_PATH = "/v2/embed"
_TYPE = "float"


class CohereEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.cohere")

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        return _PATH, {"model": self.model, **encode_fields(self, inputs, options)}

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        meta = native.get("meta")
        billed = meta.get("billed_units") if isinstance(meta, dict) else None
        usage = self.read_usage(billed, "input_tokens", "image_tokens")
        return NativeEmbeddings(decode_vectors(self, native), usage)


def encode_fields(
    adapter: EmbeddingAdapter, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions
) -> dict[str, Any]:
    """Return the fields of a request without the model's name, which other clouds write into the path."""
    images = [each for each in inputs if not isinstance(each, str)]
    fields: dict[str, Any] = {"input_type": adapter.purpose_word(options)}
    if images:
        fields["input_type"] = "image"
        fields["images"] = [f"data:{each.media_type};base64,{each.source.data}" for each in images]
    else:
        fields["texts"] = list(inputs)
        fields["truncate"] = "NONE" if options.truncate is None else options.truncate.upper()
    fields["embedding_types"] = [_TYPE]
    if options.dimensions is not None and adapter.capabilities.can_shorten:
        fields["output_dimension"] = options.dimensions
    return fields


def decode_vectors(adapter: EmbeddingAdapter, native: dict[str, Any]) -> Any:
    found = native.get("embeddings")
    if isinstance(found, dict):
        return found.get(_TYPE)
    if isinstance(found, list):  # older models on other clouds ignore the types
        return found
    raise MalformedReplyError("the reply has no embeddings", provider=adapter.provider, model=adapter.model)
