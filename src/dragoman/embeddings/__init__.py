"""Vectors of texts and images: one call for every provider.

`embed` splits the inputs into requests, sends these side by side, and joins the vectors in the order of the inputs.
"""

from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingCapabilities,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingReply,
    NativeEmbeddings,
    Purpose,
    Truncate,
)
from dragoman.embeddings.driver import embed, embed_async, embedding_adapter
from dragoman.embeddings.result import Embeddings, PartialEmbeddings, check_comparable, similarities

__all__ = [
    "EmbeddingAdapter",
    "EmbeddingCapabilities",
    "EmbeddingInput",
    "EmbeddingOptions",
    "EmbeddingReply",
    "Embeddings",
    "NativeEmbeddings",
    "PartialEmbeddings",
    "Purpose",
    "Truncate",
    "check_comparable",
    "embed",
    "embed_async",
    "embedding_adapter",
    "similarities",
]
