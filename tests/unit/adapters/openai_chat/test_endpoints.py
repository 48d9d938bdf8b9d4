"""Recorded replies of endpoints that copy this wire, read in a dialect of a few fields."""

from collections import Counter

import pytest

from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from tests.conformance.recordings.oracle import chat as oracle
from tests.conformance.recordings.oracle.expected import Failure
from tests.conformance.recordings.replies import compare
from tests.exchanges import RecordedExchange, load_or_skip
from tests.unit.adapters.openai_chat.wire import adapter, context

ENDPOINTS = (
    "azure-openai", "groq", "deepseek", "xai", "huggingface", "ollama-openai", "mistral", "openrouter",
    "openai-compatible",
)  # fmt: skip

KNOWN = {
    "azure-openai": {"usage.input", "usage.cached"},  # a model whose cached tokens outnumber its prompt
    "mistral": {"usage.input", "usage.output"},  # audio tokens in addition to the prompt
    "openai-compatible": {"calls", "stop_reason"},  # empty calls that mean none
}
"""Where the tests' simple reader reads less than the adapter."""


@pytest.mark.exchanges
@pytest.mark.parametrize("provider", ENDPOINTS)
def test_recorded_replies_of_other_endpoints_agree_with_the_oracle(provider: str) -> None:
    """Text, thinking, calls, reason and usage of every recorded reply, streamed or whole, are correct."""
    differences: Counter[str] = Counter()
    judged = 0
    for exchange in load_or_skip(provider):
        if not exchange.url_path.partition("?")[0].endswith("/chat/completions") or exchange.status >= 400:
            continue
        expected = oracle.stream(exchange.response) if exchange.streamed else oracle.reply(exchange.response)
        found = _read(exchange)
        judged += 1
        if isinstance(expected, Failure) or isinstance(found, DragomanError):
            assert isinstance(expected, Failure) == isinstance(found, DragomanError), exchange.id
            continue
        for difference in compare(found, expected):
            differences[difference.what] += 1
    assert judged
    assert set(differences) <= KNOWN.get(provider, set()), differences


def _read(exchange: RecordedExchange) -> Message | DragomanError:
    chat = adapter(exchange.model or "unknown", done_marker=False)
    if not exchange.streamed:
        try:
            response = WireResponse(status=exchange.status, body=exchange.body, headers=exchange.headers)
            return chat.from_wire_response(response, context(chat))
        except DragomanError as error:
            return error
    *_, last = chat.iter_stream([exchange.body], context(chat))
    assert isinstance(last, (MessageComplete, ErrorEvent))
    if isinstance(last, MessageComplete):
        return last.message
    assert isinstance(last.error, DragomanError)
    return last.error
