"""Embeddings of the Gemini API and of Vertex AI (https://ai.google.dev/api/embeddings,
https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api)."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    ErrorDecoder,
    NativeEmbeddings,
)
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.usage import TokenUsage


class GoogleEmbeddings(EmbeddingAdapter):
    """The Gemini API: batchEmbedContents."""

    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.google")

    def __init__(self, provider: str, model: str, error: ErrorDecoder, model_path: Callable[[], str]) -> None:
        """``model_path`` returns the path of the model, without an operation."""
        super().__init__(provider, model, error)
        self._model_path = model_path

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        path = self._model_path()
        fields = {"model": path.removeprefix("/v1beta/"), **self._options(options)}
        requests = [{"content": _content(each), **fields} for each in inputs]
        return f"{path}:batchEmbedContents", {"requests": requests}

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        usage = self.read_usage(native.get("usageMetadata"), "promptTokenCount", "totalTokenCount")
        return NativeEmbeddings(_values(native.get("embeddings")), usage)

    def _options(self, options: EmbeddingOptions) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if (purpose := self.purpose_word(options)) is not None:
            fields["taskType"] = purpose
        if options.dimensions is not None:
            fields["outputDimensionality"] = options.dimensions
        return fields


class VertexEmbeddings(GoogleEmbeddings):
    """Vertex AI: embedContent and batchEmbedContents for Gemini's models, predict for the others."""

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        path = self._model_path()
        if self.capabilities.wire.get("operation") == "predict":
            purpose = self.purpose_word(options)
            instances = [{"content": each, **({"task_type": purpose} if purpose else {})} for each in inputs]
            parameters: dict[str, Any] = {"autoTruncate": self.provider_cuts(options)}
            if options.dimensions is not None:
                parameters["outputDimensionality"] = options.dimensions
            return f"{path}:predict", {"instances": instances, "parameters": parameters}
        settings = {**self._options(options), "autoTruncate": self.provider_cuts(options)}
        requests = [{"content": _content(each), "embedContentConfig": settings} for each in inputs]
        if len(requests) == 1:
            return f"{path}:embedContent", requests[0]
        return f"{path}:batchEmbedContents", {"requests": requests}

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        if isinstance(native.get("predictions"), list):
            return self._decode_predictions(native["predictions"])
        if not isinstance(native.get("embedding"), dict):
            return super().decode(native, response)
        found = super().decode({**native, "embeddings": [native["embedding"]]}, response)
        return found._replace(truncated=(0,) if native.get("truncated") is True else ())

    def _decode_predictions(self, predictions: list[Any]) -> NativeEmbeddings:
        found = [each.get("embeddings") if isinstance(each, dict) else None for each in predictions]
        counted = [each.get("statistics") if isinstance(each, dict) else None for each in found]
        usages = [self.read_usage(each, "token_count") for each in counted]
        known = [each for each in usages if each is not None]
        usage = None
        if known:
            missing = () if len(known) == len(usages) else ("predictions.statistics",)
            unread = (*dict.fromkeys(path for each in known for path in each.unread), *missing)
            usage = TokenUsage(input_tokens=sum(each.input_tokens for each in known), unread=unread)
        cut = [
            number for number, each in enumerate(counted) if isinstance(each, dict) and each.get("truncated") is True
        ]
        return NativeEmbeddings(_values(found), usage, tuple(cut))


def _content(each: EmbeddingInput) -> dict[str, Any]:
    if isinstance(each, str):
        return {"parts": [{"text": each}]}
    return {"parts": [{"inlineData": {"mimeType": each.media_type, "data": each.source.data}}]}


def _values(items: Any) -> Any:
    """Return the vectors of a list of objects; anything else is left for the check of the vectors."""
    if not isinstance(items, list):
        return None
    return [each.get("values") if isinstance(each, dict) else None for each in items]
