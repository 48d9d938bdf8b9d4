"""Embeddings of an Ollama server (https://docs.ollama.com/api/embed)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    NativeEmbeddings,
)
from dragoman.adapter.wire import WireResponse

_PATH = "/api/embed"


class OllamaEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.ollama")

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        body: dict[str, Any] = {
            "model": self.model,
            "input": list(inputs),
            "truncate": self.provider_cuts(options),
        }
        facts = self.capabilities
        if options.dimensions is not None and (facts.can_shorten or facts.dimensions is None):
            body["dimensions"] = options.dimensions
        return _PATH, body

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        counts = {name: native[name] for name in ("prompt_eval_count",) if name in native}
        return NativeEmbeddings(native.get("embeddings"), self.read_usage(counts, "prompt_eval_count"))
