"""The conformance kit: tests any adapter without its provider.

It tests the contract, the capabilities in both directions, framing, streams, swaps, tool ids, costs and errors. In
pytest, derive from `AdapterConformance`, and from `EmbeddingConformance` for embeddings; in a program, call `conform`;
on the command line, use `dragoman conform PACKAGE`. It needs hypothesis.
"""

from dragoman.testing.conformance.embeddings import EmbeddingConformance
from dragoman.testing.conformance.laws import LAWS, Law, LawResult, Mark
from dragoman.testing.conformance.subject import Effort, NotTriedError, Subject
from dragoman.testing.conformance.suite import AdapterConformance, Scorecard, conform, page
from dragoman.testing.conformance.wire import UNKNOWN, FailedReply, Wire, compact, line, sse
from dragoman.testing.sample_reply import SampleCall, SampleReply

__all__ = [
    "LAWS",
    "UNKNOWN",
    "AdapterConformance",
    "Effort",
    "EmbeddingConformance",
    "FailedReply",
    "Law",
    "LawResult",
    "Mark",
    "NotTriedError",
    "SampleCall",
    "SampleReply",
    "Scorecard",
    "Subject",
    "Wire",
    "compact",
    "conform",
    "line",
    "page",
    "sse",
]
