"""Requests: from the wire to the canonical form and back, by the same adapter."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.jsondiff import differences
from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings.normalisations import normalise
from tests.conformance.scope import model_name
from tests.exchanges import RecordedExchange

STREAMED_BY_PATH = frozenset({"google", "google-vertex", "bedrock"})
"""Providers whose path says whether the reply streams, so the body does not show it."""


def judge(exchange: RecordedExchange) -> Outcome:
    """Compare the recorded body with the adapter's own encoding of the decoded request."""
    try:
        ours, complaints = _return_trip(exchange)
    except Exception as error:
        return Outcome(exchange, Aspect.REQUEST, (Difference(f"raised {type(error).__name__}", str(error)),))
    theirs, ours, used = normalise(exchange.provider, exchange.request, ours)
    return Outcome(exchange, Aspect.REQUEST, (*differences(theirs, ours), *complaints), used)


def _return_trip(exchange: RecordedExchange) -> tuple[Any, tuple[Difference, ...]]:
    model = model_name(exchange)
    adapter, context = create_adapter(model), create_context(model)
    messages, tools, options = adapter.from_wire_request(exchange.request, context)
    if exchange.provider in STREAMED_BY_PATH:
        options = replace(options, stream=exchange.streaming)
    wire = adapter.to_wire(messages, tools, options)
    return json.loads(wire.body), tuple(_envelope_differences(exchange, wire.method, wire.path, stream=wire.stream))


def _envelope_differences(exchange: RecordedExchange, method: str, path: str, *, stream: bool) -> Iterator[Difference]:
    """Check that the request is a POST to the recorded path, with the recorded stream flag."""
    recorded = unquote(exchange.url_path.partition("?")[0])
    if method != "POST" or not recorded.endswith(unquote(path.partition("?")[0])):
        yield Difference("envelope", f"{exchange.method} {recorded} -> {method} {path}")
    stream_requested = exchange.request.get("stream", exchange.provider == "ollama")
    if bool(stream_requested) != stream and exchange.provider not in STREAMED_BY_PATH:
        yield Difference("stream flag", f"{stream_requested} -> {stream}")
