"""The oracle against independent facts of the recordings: totals, and the features found in them."""

import re

import pytest

from tests.conformance.recordings import oracle
from tests.conformance.recordings.oracle.expected import Expected, Failure
from tests.conformance.scope import ADAPTERS, skip_reason
from tests.exchanges import RecordedExchange, load_or_skip

pytestmark = pytest.mark.exchanges


@pytest.fixture(params=list(ADAPTERS))
def read(request: pytest.FixtureRequest) -> list[tuple[RecordedExchange, Expected | Failure]]:
    """Every genuine reply with status 200 that is in scope, as the oracle reads it."""
    return [
        (exchange, oracle.read(exchange))
        for exchange in load_or_skip(request.param)
        if exchange.is_genuine and exchange.status < 400 and skip_reason(exchange) is None
    ]


def test_buckets_add_up_to_the_total(read: list[tuple[RecordedExchange, Expected | Failure]]) -> None:
    """The four buckets are disjoint and complete: their sum is the provider's own total."""
    totals = [
        (exchange.id, expected.usage.sum, expected.usage.total)
        for exchange, expected in read
        if isinstance(expected, Expected) and expected.usage is not None and expected.usage.total is not None
    ]
    assert [found for found in totals if found[1] != found[2]] == []


def test_no_bucket_is_negative(read: list[tuple[RecordedExchange, Expected | Failure]]) -> None:
    """Cached tokens are subtracted from the input that contains them, and from nothing else."""
    usages = [(exchange.id, expected.usage) for exchange, expected in read if isinstance(expected, Expected)]
    assert [
        (name, usage)
        for name, usage in usages
        if usage is not None and min(usage.input, usage.cached, usage.cache_creation, usage.output) < 0
    ] == []


def test_recorded_calls_are_found(read: list[tuple[RecordedExchange, Expected | Failure]]) -> None:
    """The recordings say which replies contain calls, and which contain two or more."""
    for exchange, expected in read:
        if isinstance(expected, Expected) and not _is_misread(exchange):
            count = len(expected.calls)
            assert (count > 0) == ("tool_call" in exchange.features), exchange.id
            assert (count > 1) == ("parallel_tools" in exchange.features), exchange.id


def test_recorded_failures_are_found(read: list[tuple[RecordedExchange, Expected | Failure]]) -> None:
    """A reply with status 200 is a failure only if the recordings say so."""
    failed = [exchange.id for exchange, expected in read if isinstance(expected, Failure)]
    assert failed == [exchange.id for exchange, _ in read if {"error", "error_mid_stream"} & exchange.features]


def test_stop_reasons_fit_the_reply(read: list[tuple[RecordedExchange, Expected | Failure]]) -> None:
    """A reply that ends with ``tool_use`` has calls, and only a truncated one ends with ``max_tokens``."""
    for exchange, expected in read:
        if isinstance(expected, Expected):
            if expected.stop_reason == "tool_use":
                assert expected.calls, exchange.id
            if not (_in_numbers(exchange) or _is_misread(exchange)):
                assert (expected.stop_reason == "max_tokens") == ("truncated" in exchange.features), exchange.id


def _is_misread(exchange: RecordedExchange) -> bool:
    """Whether the recordings' features miss something in a reply, or count too much.

    The features of Nova's own format and of interactions are incomplete. Those of Bedrock include the calls that it
    answers itself; those of Snowflake include an empty call next to every reply.
    """
    if exchange.upstream == "snowflake" or exchange.provider == "google-interactions":
        return True
    nova = "/invoke" in exchange.url_path and "schemaVersion" in (exchange.request or {})
    return exchange.provider == "bedrock" and (nova or b"server_tool_use" in exchange.body)


def _in_numbers(exchange: RecordedExchange) -> bool:
    """Whether the reason is a number, which the recordings' features do not consider."""
    return re.search(rb'"finishReason": ?\d', exchange.body) is not None
