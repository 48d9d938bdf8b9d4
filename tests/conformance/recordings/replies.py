"""Replies and their token counts: what the adapter read against what the oracle read."""

from collections.abc import Iterator

from dragoman import DragomanError, Message, WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.outcomes import Aspect, Difference, Outcome, shorten
from tests.conformance.recordings import costs, resends
from tests.conformance.recordings.oracle.expected import Buckets, Expected
from tests.conformance.scope import model_name
from tests.exchanges import RecordedExchange


def decode(exchange: RecordedExchange) -> Message | DragomanError:
    """The adapter's message, or its typed error. Other exceptions pass through."""
    model = model_name(exchange)
    adapter, context = create_adapter(model), create_context(model)
    try:
        if not exchange.streamed or exchange.status >= 400:
            response = WireResponse(status=exchange.status, headers=exchange.headers, body=exchange.body)
            return adapter.from_wire_response(response, context)
        last = list(adapter.iter_stream([exchange.body], context))[-1]
    except DragomanError as error:
        return error
    if isinstance(last, MessageComplete):
        return last.message
    if isinstance(last, ErrorEvent) and isinstance(last.error, DragomanError):
        return last.error
    raise AssertionError(f"the stream's last event is {last!r}")


def judge(exchange: RecordedExchange, expected: Expected) -> Iterator[Outcome]:
    """The reply itself, and the sum of its tokens if the provider reports a total."""
    try:
        message = decode(exchange)
    except Exception as error:
        yield Outcome(exchange, Aspect.REPLY, (Difference(f"raised {type(error).__name__}", str(error)),))
        return
    if isinstance(message, DragomanError):
        yield Outcome(exchange, Aspect.REPLY, (Difference(f"gave {type(message).__name__}", str(message)),))
        return
    yield Outcome(exchange, Aspect.REPLY, tuple(compare(message, expected)))
    if expected.usage is not None and expected.usage.total is not None:
        sum_of_buckets = message.usage.total_tokens if message.usage else None
        wrong = sum_of_buckets != expected.usage.total
        detail = f"{expected.usage.total} -> {sum_of_buckets}"
        yield Outcome(exchange, Aspect.TOTAL, (Difference("total", detail),) if wrong else ())
    yield from costs.judge(exchange, expected, message)
    yield from resends.judge(exchange, expected, message)


def compare(message: Message, expected: Expected) -> Iterator[Difference]:
    """Differences between a message and its reply."""
    # A reply that is still queued in the background is not complete, and may report that.
    if message.metadata.status != "complete" and expected.stop_reason != "pause":
        yield Difference("status", str(message.metadata.status))
    if message.text != expected.text:
        yield Difference("text", f"{shorten(expected.text)} -> {shorten(message.text)}")
    # The wire does not mark the parts of a summary: white space between them is the adapter's choice.
    if "".join(message.thinking.split()) != "".join(expected.thinking.split()):
        yield Difference("thinking", f"{shorten(expected.thinking)} -> {shorten(message.thinking)}")
    calls = tuple((call.name, call.input) for call in message.tool_uses)
    if calls != expected.calls:
        yield Difference("calls", f"{shorten(expected.calls)} -> {shorten(calls)}")
    if expected.stop_reason is not None and message.stop_reason != expected.stop_reason:
        yield Difference("stop_reason", f"{expected.stop_reason} -> {message.stop_reason}")
    if message.stop_reason is None:
        yield Difference("stop_reason", "missing")
    yield from _usage(message, expected.usage)


def _usage(message: Message, expected: Buckets | None) -> Iterator[Difference]:
    usage = message.usage
    if usage is None or expected is None:
        if usage is not None or expected is not None:
            yield Difference("usage", f"{expected} -> {usage}")
        return
    pairs = {
        "input": (expected.input, usage.input_tokens),
        "cached": (expected.cached, usage.cached_input_tokens),
        "cache_creation": (expected.cache_creation, usage.cache_creation_input_tokens),
        "output": (expected.output, usage.output_tokens),
    }
    for name, (theirs, ours) in pairs.items():
        if theirs != ours:
            yield Difference(f"usage.{name}", f"{theirs} -> {ours}")
    if expected.total is not None and usage.reported_total != expected.total:
        yield Difference("usage.reported_total", f"{expected.total} -> {usage.reported_total}")
