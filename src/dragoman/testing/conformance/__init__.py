"""The conformance kit: whether an adapter keeps its promises, for any adapter and without its provider.

It tries the contract, the capabilities both ways, framing, streams, swaps, tool ids, costs and errors. In pytest,
derive from `AdapterConformance`; in a program, call `conform`; on the command line, `dragoman conform PACKAGE`.
It needs hypothesis.
"""

from dragoman.testing.conformance.law import Law, Mark, NotTriedError, Result
from dragoman.testing.conformance.laws import LAWS
from dragoman.testing.conformance.page import page
from dragoman.testing.conformance.said import Call, Said
from dragoman.testing.conformance.scorecard import Scorecard, conform
from dragoman.testing.conformance.subject import Effort, Subject
from dragoman.testing.conformance.suite import AdapterConformance
from dragoman.testing.conformance.wire import Failing, Wire, compact, line, sse

__all__ = [
    "LAWS",
    "AdapterConformance",
    "Call",
    "Effort",
    "Failing",
    "Law",
    "Mark",
    "NotTriedError",
    "Result",
    "Said",
    "Scorecard",
    "Subject",
    "Wire",
    "compact",
    "conform",
    "line",
    "page",
    "sse",
]
