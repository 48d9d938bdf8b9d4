"""Embeddings of OpenAI and of the endpoints with its wire
(https://developers.openai.com/api/reference/resources/embeddings).

``wire`` of embeddings.toml has the fields that an endpoint names differently.
"""

from collections.abc import Sequence
from operator import itemgetter
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

_PATH = "/embeddings"


class OpenAIEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of(
        "dragoman_adapters", "openai_platform/embeddings.toml", "compatible/embeddings.toml"
    )

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        facts = self.capabilities
        wire = facts.wire
        body: dict[str, Any] = {"input": list(inputs), "model": self.model}
        if options.dimensions is not None and (facts.can_shorten or facts.dimensions is None):
            body[wire["dimensions"]] = options.dimensions
        if wire.get("encoding_format"):
            body["encoding_format"] = wire["encoding_format"]
        if (purpose := self.purpose_word(options)) is not None:
            body[wire["purpose"]] = purpose
        if name := wire.get("truncate"):
            body[name] = self.provider_cuts(options)
        return _PATH, body

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        items = native.get("data")
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise MalformedReplyError("the reply has no list of vectors", provider=self.provider, model=self.model)
        indexes: list[Any] = [each.get("index") for each in items]
        # Servers that write no index, or the same one twice, send them in order.
        if all(type(each) is int for each in indexes) and sorted(indexes) == list(range(len(items))):
            items = sorted(items, key=itemgetter("index"))
        usage = self.read_usage(native.get("usage"), "prompt_tokens", "total_tokens")
        return NativeEmbeddings([each.get("embedding") for each in items], usage)
