"""The facts of embedding models: their sources and their rows."""

import dragoman_adapters.bedrock.embeddings
import dragoman_adapters.cohere.embeddings
import dragoman_adapters.google.embeddings
import dragoman_adapters.mistral.embeddings
import dragoman_adapters.ollama.embeddings
import dragoman_adapters.openai_platform.embeddings
from dragoman.adapter.facts.capabilities import Support
from dragoman.adapter.operations.embeddings import EmbeddingTable
from dragoman.embeddings import EmbeddingAdapter, embedding_adapter

KINDS: tuple[type[EmbeddingAdapter], ...] = (
    dragoman_adapters.openai_platform.embeddings.OpenAIEmbeddings,
    dragoman_adapters.mistral.embeddings.MistralEmbeddings,
    dragoman_adapters.cohere.embeddings.CohereEmbeddings,
    dragoman_adapters.google.embeddings.GoogleEmbeddings,
    dragoman_adapters.bedrock.embeddings.BedrockEmbeddings,
    dragoman_adapters.ollama.embeddings.OllamaEmbeddings,
)


def test_every_listed_model_has_facts() -> None:
    """Each is found by its provider's adapter, in the table that lists it, with its dimensions."""
    listed = [(name, kind) for kind in KINDS for name in kind.models.listed]
    assert len({name for name, _ in listed}) == len(listed) > 30
    for name, kind in listed:
        adapter = embedding_adapter(name)
        assert isinstance(adapter, kind), name
        assert adapter.capabilities.dimensions, name


def test_later_rows_override() -> None:
    """Defaults, then rows in their order; a row that matches several names says so once."""
    table = EmbeddingTable(
        {
            "default": {"max_inputs": 2, "wire": {"a": 1}},
            "model": [
                {"match": ["x:*", "y:*"], "max_inputs": 3, "wire": {"b": 2}},
                {"match": "x:one", "refuses_long_inputs": "native", "listed": ["x:one"]},
            ],
        }
    )
    one, other = table.capabilities("x:one"), table.capabilities("z:one")
    assert (one.max_inputs, one.wire, one.refuses_long_inputs) == (3, {"a": 1, "b": 2}, Support.NATIVE)
    assert (other.max_inputs, other.wire, table.listed) == (2, {"a": 1}, ("x:one",))
