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


class BedrockEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.bedrock")

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        path = f"/model/{quote(unquote(self.model), safe='')}/invoke"
        # Titan and Nova take one input for each request, as their rows say; the options were checked against them.
        match self.capabilities.wire.get("body"):
            case "titan_text":
                return path, self._titan_text(inputs[0], options)
            case "titan_image":
                return path, self._titan_image(inputs[0], options)
            case "nova":
                return path, self._nova(inputs[0], options)
            case "cohere":
                return path, encode_fields(self, inputs, options)
            case _:
                raise RequestError(
                    f"{self.model_id} is not an embedding model that this adapter knows: Titan, Nova or Cohere"
                )

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        if self.capabilities.wire.get("body") == "cohere":
            usage = self.read_usage(_header_count(response), "inputTextTokenCount")
            return NativeEmbeddings(decode_vectors(self, native), usage)
        if isinstance(native.get("embeddings"), list):
            items = native["embeddings"]
            usage = self.read_usage(_header_count(response), "inputTextTokenCount")
            return NativeEmbeddings(
                [each.get("embedding") if isinstance(each, dict) else None for each in items], usage
            )
        if "embedding" not in native:
            raise MalformedReplyError("the reply has no embedding", provider=self.provider, model=self.model)
        counts = {name: native[name] for name in ("inputTextTokenCount",) if name in native}
        return NativeEmbeddings([native["embedding"]], self.read_usage(counts, "inputTextTokenCount"))

    def _titan_text(self, text: EmbeddingInput, options: EmbeddingOptions) -> dict[str, Any]:
        body: dict[str, Any] = {"inputText": text}
        if options.dimensions is not None and self.capabilities.can_shorten:
            body["dimensions"] = options.dimensions
        return body

    def _titan_image(self, item: EmbeddingInput, options: EmbeddingOptions) -> dict[str, Any]:
        body: dict[str, Any] = {"inputText": item} if isinstance(item, str) else {"inputImage": item.source.data}
        if options.dimensions is not None:
            body["embeddingConfig"] = {"outputEmbeddingLength": options.dimensions}
        return body

    def _nova(self, item: EmbeddingInput, options: EmbeddingOptions) -> dict[str, Any]:
        fields: dict[str, Any] = {"embeddingPurpose": self.purpose_word(options)}
        if options.dimensions is not None:
            fields["embeddingDimension"] = options.dimensions
        if isinstance(item, str):
            cut = "NONE" if options.truncate is None else options.truncate.upper()
            fields["text"] = {"truncationMode": cut, "value": item}
        else:
            kind = (item.media_type or "").partition("/")[2]
            fields["image"] = {"format": kind, "source": {"bytes": item.source.data}}
        return {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": fields}


def _header_count(response: WireResponse) -> dict[str, int]:
    count = response.headers.get(_TOKENS_HEADER, "")
    return {"inputTextTokenCount": int(count)} if count.isascii() and count.isdigit() and len(count) < 13 else {}
