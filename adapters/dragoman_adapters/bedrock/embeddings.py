"""Embeddings of Bedrock's InvokeModel: Amazon's Titan and Nova, and Cohere's models with the body of their own API.

Source: docs.aws.amazon.com/bedrock/latest/userguide, model-parameters-titan-embed-text and model-parameters-embed,
and docs.aws.amazon.com/nova/latest/userguide/embeddings-schema.html.
"""

from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import quote, unquote

from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    NativeEmbeddings,
)
from dragoman.adapter.wire import WireResponse
from dragoman_adapters.cohere.embeddings import decode_vectors, encode_fields

_TOKENS_HEADER = "x-amzn-bedrock-input-token-count"
_COUNT = "inputTextTokenCount"


class BedrockEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.bedrock")

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        path = f"/model/{quote(unquote(self.model), safe='')}/invoke"
        # Titan and Nova take one input for each request, as their rows say; the options were checked against them.
        item, dimensions = inputs[0], options.dimensions
        body: dict[str, Any]
        match self.capabilities.wire.get("body"):
            case "titan_text":
                body = {"inputText": item}
                if dimensions is not None and self.capabilities.can_shorten:
                    body["dimensions"] = dimensions
                return path, body
            case "titan_image":
                body = {"inputText": item} if isinstance(item, str) else {"inputImage": item.source.data}
                if dimensions is not None:
                    body["embeddingConfig"] = {"outputEmbeddingLength": dimensions}
                return path, body
            case "nova":
                body = {"embeddingPurpose": self.purpose_word(options)}
                if dimensions is not None:
                    body["embeddingDimension"] = dimensions
                if isinstance(item, str):
                    cut = "NONE" if options.truncate is None else options.truncate.upper()
                    body["text"] = {"truncationMode": cut, "value": item}
                else:
                    kind = (item.media_type or "").partition("/")[2]
                    body["image"] = {"format": kind, "source": {"bytes": item.source.data}}
                return path, {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": body}
            case "cohere":
                return path, encode_fields(self, inputs, options)
            case _:
                raise RequestError(
                    f"{self.model_id} is not an embedding model that this adapter knows: Titan, Nova or Cohere"
                )

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        is_cohere = self.capabilities.wire.get("body") == "cohere"
        items = native.get("embeddings")
        if is_cohere or isinstance(items, list):
            count = response.headers.get(_TOKENS_HEADER, "")
            is_count = count.isascii() and count.isdigit() and len(count) < 13
            usage = self.read_usage({_COUNT: int(count)} if is_count else {}, _COUNT)
            if is_cohere:
                return NativeEmbeddings(decode_vectors(self, native), usage)
            return NativeEmbeddings(
                [each.get("embedding") if isinstance(each, dict) else None for each in items or ()], usage
            )
        if "embedding" not in native:
            raise MalformedReplyError("the reply has no embedding", provider=self.provider, model=self.model)
        counts = {_COUNT: native[_COUNT]} if _COUNT in native else {}
        return NativeEmbeddings([native["embedding"]], self.read_usage(counts, _COUNT))
