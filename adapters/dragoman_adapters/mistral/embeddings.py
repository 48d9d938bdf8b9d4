"""Embeddings of Mistral (https://docs.mistral.ai/api/endpoint/embeddings): OpenAI's wire with other names."""

from typing import ClassVar

from dragoman.adapter.operations.embeddings import EmbeddingTable
from dragoman_adapters.openai_platform.embeddings import OpenAIEmbeddings


class MistralEmbeddings(OpenAIEmbeddings):
    models: ClassVar[EmbeddingTable] = EmbeddingTable.of("dragoman_adapters.mistral")
