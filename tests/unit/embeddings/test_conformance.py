"""Every embedding adapter keeps the laws of the kit; the kit finds an adapter that does not."""

import base64
import json
from array import array
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from dragoman.adapter.operations.embeddings import NativeEmbeddings
from dragoman.adapter.wire import WireResponse
from dragoman.errors import ConfigurationError
from dragoman.testing.conformance import EmbeddingConformance
from dragoman.testing.doubles.scripted_adapter import ScriptedAdapter
from dragoman_adapters.ollama.adapter import OllamaAdapter
from dragoman_adapters.ollama.embeddings import OllamaEmbeddings

Vectors = Sequence[Sequence[float]]


def json_response(value: Any, **headers: str) -> WireResponse:
    return WireResponse(200, json.dumps(value).encode(), headers)


class OpenAIWire(EmbeddingConformance):
    """Base64 where a number fits, so that both forms are read."""

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        def encode(vector: Sequence[float]) -> Any:
            if any(number > 1e38 for number in vector):
                return list(vector)
            return base64.b64encode(array("f", vector).tobytes()).decode()

        data = [{"index": number, "embedding": encode(each)} for number, each in enumerate(vectors)]
        return json_response({"data": data[::-1], "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})


class TestOpenAI(OpenAIWire):
    adapter = "openai"
    models = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")


class TestAzure(OpenAIWire):
    adapter = "azure-openai"
    models = ("text-embedding-3-small", "my-deployment")


class TestMistral(OpenAIWire):
    adapter = "mistral"
    models = ("mistral-embed", "codestral-embed")


class TestVoyage(OpenAIWire):
    adapter = "voyageai"
    models = ("voyage-4", "voyage-4-lite", "voyage-law-2", "voyage-3-lite")


class TestServers(OpenAIWire):
    adapter = "llamacpp"
    models = ("bge-small",)


class TestHuggingFace(OpenAIWire):
    adapter = "huggingface"
    models = ("BAAI/bge-small-en-v1.5",)


class TestCohere(EmbeddingConformance):
    adapter = "cohere"
    models = ("embed-v4.0", "embed-english-v3.0", "embed-multilingual-light-v3.0")

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        return json_response({"embeddings": {"float": vectors}, "meta": {"billed_units": {"input_tokens": tokens}}})


class TestOllama(EmbeddingConformance):
    adapter = "ollama"
    models = ("nomic-embed-text", "embeddinggemma", "mxbai-embed-large", "some-model")

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        return json_response({"embeddings": vectors, "prompt_eval_count": tokens})


class TestGoogle(EmbeddingConformance):
    adapter = "google"
    models = ("gemini-embedding-001", "gemini-embedding-2")

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        values = [{"values": each} for each in vectors]
        return json_response({"embeddings": values, "usageMetadata": {"promptTokenCount": tokens}})


class TestVertex(TestGoogle):
    adapter = "google-vertex"


class TestVertexPredictions(EmbeddingConformance):
    adapter = "google-vertex"
    models = ("text-embedding-005",)

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        statistics = {"token_count": tokens, "truncated": False}
        return json_response(
            {"predictions": [{"embeddings": {"values": v, "statistics": statistics}} for v in vectors]}
        )


class TestTitan(EmbeddingConformance):
    adapter = "bedrock"
    models = ("amazon.titan-embed-text-v1", "amazon.titan-embed-text-v2:0", "amazon.titan-embed-image-v1")

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        embedding = {"embedding": vectors[0]} if len(vectors) == 1 else {}
        return json_response({**embedding, "inputTextTokenCount": tokens})


class TestNova(EmbeddingConformance):
    adapter = "bedrock"
    models = ("amazon.nova-2-multimodal-embeddings-v1:0",)

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        items = [{"embeddingType": "TEXT", "embedding": each} for each in vectors]
        return json_response({"embeddings": items}, **{"x-amzn-bedrock-input-token-count": str(tokens)})


class TestCohereOnBedrock(EmbeddingConformance):
    adapter = "bedrock"
    models = ("cohere.embed-english-v3", "us.cohere.embed-v4:0")

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        headers = {"x-amzn-bedrock-input-token-count": str(tokens)}
        return json_response({"embeddings": {"float": vectors}}, **headers)


class _Reversed(OllamaEmbeddings):
    """Returns the vectors in the wrong order, and sends fewer texts than it got."""

    def encode(self, inputs: Any, options: Any) -> Any:
        return super().encode(inputs[:1], options)

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        found = super().decode(native, response)
        return found._replace(vectors=found.vectors and found.vectors[::-1])


class _ReversedAdapter(OllamaAdapter):
    @property
    def embeddings(self) -> _Reversed:
        return _Reversed(self.provider, self.model, self.error)


class _BrokenSuite(TestOllama):
    __test__: ClassVar[bool] = False
    adapter = _ReversedAdapter


def test_the_kit_finds_what_is_wrong() -> None:
    """An adapter that loses texts and mixes vectors up breaks two laws, and keeps the others."""
    suite, subject = _BrokenSuite(), _BrokenSuite.subject("some-model")
    broken = []
    for name in dir(suite):
        if name.startswith("test_"):
            try:
                getattr(suite, name)(subject)
            except AssertionError:
                broken.append(name)
            except pytest.skip.Exception:
                pass
    assert broken == ["test_every_text_is_sent_in_its_place", "test_vectors_come_back_in_order"]


def test_an_adapter_without_embeddings_is_no_subject() -> None:
    """A suite without models is refused, too."""

    class Suite(TestOllama):
        __test__ = False
        adapter = "anthropic"

    with pytest.raises(ConfigurationError, match="has no embeddings"):
        Suite.subject("claude-opus-5-5")


class TestScripted(EmbeddingConformance):
    adapter = ScriptedAdapter
    models = ("actor",)

    def reply(self, vectors: Vectors, tokens: int) -> WireResponse:
        return json_response({"vectors": vectors, "usage": {"input_tokens": tokens}})
