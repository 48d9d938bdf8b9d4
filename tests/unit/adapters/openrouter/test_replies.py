"""Replies of OpenRouter: its cost, its own fields, comments, and errors under status 200."""

import json
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import (
    BillingError,
    ContentFilterError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
)
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent
from dragoman.canonical.message import Message, StopReason
from dragoman_adapters.openrouter.adapter import OpenRouterAdapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    context,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    read,
    round_trip,
    stream,
    stream_message,
)

ADAPTER: Adapter = OpenRouterAdapter("openai/gpt-4o-mini")
USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "cost": 0.00123,
    "is_byok": False,
    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 6},
    "server_tool_use_details": {"web_search_requests": 2, "web_fetch_requests": 0},
}


def test_the_reported_cost_is_kept() -> None:
    """Its reported cost is kept in addition to the cost from the table; cache writes are counted."""
    usage = read(handwritten_reply({"content": "Hi"}, usage=USAGE), ADAPTER).usage
    assert usage is not None
    assert usage.reported_cost_usd == Decimal("0.00123")
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_creation_input_tokens) == (10, 4, 6)
    assert usage.server_tools == {"web_search_requests": 2}


def test_the_upstream_finish_reason_is_kept() -> None:
    """In provider_raw, which only its adapter reads."""
    native = handwritten_reply({"content": "Hi"}, provider="Google")
    native["choices"][0]["native_finish_reason"] = "STOP"
    message = read(native, ADAPTER)
    assert message.stop_reason is StopReason.END_TURN
    raw = message.metadata.provider_raw or {}
    assert raw["choice"]["native_finish_reason"] == "STOP"
    assert raw["reply"]["provider"] == "Google"


def test_comments_keep_a_stream_alive() -> None:
    comment = b": OPENROUTER PROCESSING\n\n"
    chunks = [comment, handwritten_chunk({"content": "Hi"}), comment, handwritten_chunk({}, "stop"), comment, DONE]
    assert stream_message(chunks, ADAPTER).text == "Hi"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 402, "message": "Insufficient credits"}, BillingError),
        ({"code": 403, "message": "Flagged", "metadata": {"reasons": ["violence"]}}, ProviderError),
        ({"code": 408, "message": "Timed out"}, RequestTimeoutError),
        ({"code": 429, "message": "Rate limit exceeded"}, RateLimitError),
        ({"code": 502, "message": "Provider returned error", "metadata": {"provider_name": "Azure"}}, ServerError),
        ({"code": 503, "message": "No provider"}, OverloadedError),
        ({"code": "content_filter", "message": "Blocked"}, ContentFilterError),
    ],
)
def test_errors_under_status_200_are_errors(error: dict[str, Any], kind: type[ProviderError]) -> None:
    """Errors under status 200 are errors in the body, in its choice, or as a frame of the stream: the same class as by
    status.
    """
    for native in ({"error": error}, handwritten_reply({"content": ""}, "error", error=error)):
        with pytest.raises(kind):
            read(native, ADAPTER)
    inside = handwritten_reply({"content": ""}, "error")
    inside["choices"][0]["error"] = error
    with pytest.raises(kind):
        read(inside, ADAPTER)
    frame = b"data: " + json.dumps({"id": "gen-1", "error": error, "choices": inside["choices"]}).encode() + b"\n\n"
    last = stream([handwritten_chunk({"content": "Hi"}), frame], ADAPTER)[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, kind)
    assert last.partial is not None
    assert last.partial.text == "Hi"


def test_a_failed_reply_without_an_error_is_an_error() -> None:
    """The finish reason shows it, and the upstream's reason is in the error."""
    native = handwritten_reply({"content": ""}, "error")
    native["choices"][0]["native_finish_reason"] = "MALFORMED_FUNCTION_CALL"
    with pytest.raises(ServerError, match="MALFORMED_FUNCTION_CALL"):
        read(native, ADAPTER)


def test_the_upstream_error_message_is_shown() -> None:
    """If a router only says that a provider failed, the message has the provider's own text."""
    error = {"code": 429, "message": "Provider returned error", "metadata": {"provider_name": "Google", "raw": "busy"}}
    body = json.dumps({"error": error, "user_id": "u"}).encode()
    response = WireResponse(status=429, body=body, headers={"X-Generation-Id": "gen-1"})
    with pytest.raises(RateLimitError, match="Google: busy") as caught:
        ADAPTER.from_wire_response(response, context(ADAPTER))
    assert caught.value.request_id == "gen-1"


def test_routing_fields_are_merged_into_the_request() -> None:
    """Routing, plugins and other fields are merged into the body, and decoded from it."""
    routing = {"provider": {"only": ["openai"]}, "models": ["openai/gpt-4o"], "plugins": [{"id": "web"}]}
    body, _ = encode_request([Message.user("Hi")], ADAPTER, extra={"openrouter": routing, "openai": {"store": True}})
    assert body == {
        "model": "openai/gpt-4o-mini",
        "messages": [{"role": "user", "content": "Hi"}],
        **routing,
    }
    assert round_trip(body, ADAPTER) == body


def test_caching_is_requested_if_not_automatic() -> None:
    """Anthropic's models cache on request, with a given lifetime."""
    claude = OpenRouterAdapter("anthropic/claude-haiku-4.5")
    assert encode_request([Message.user("Hi")], claude, prompt_cache="5m")[0]["cache_control"] == {"type": "ephemeral"}
    longer = encode_request([Message.user("Hi")], claude, prompt_cache="1h")[0]
    assert longer["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert round_trip(longer, claude) == longer
    assert "cache_control" not in encode_request([Message.user("Hi")], ADAPTER, prompt_cache="5m")[0]


def test_cache_marks_on_single_parts_stay() -> None:
    """A cache mark on a part is kept in the round trip."""
    part = {"type": "text", "text": "Long", "cache_control": {"type": "ephemeral"}}
    body = {"model": "openai/gpt-4o-mini", "messages": [{"role": "system", "content": [part]}]}
    assert round_trip(body, ADAPTER) == body
