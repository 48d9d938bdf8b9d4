"""From a provider's usage object to a price: how counts are read, and how contradictions are reported."""

import json
import logging
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.pricing import reprice

SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}}
OPEN = {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "u"}}
BARE = {"type": "web_search_call", "id": "ws_3", "status": "completed"}
MESSAGES = {"type": "message", "id": "m_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}


def read(model: str, reply: dict[str, Any]) -> Message:
    response = WireResponse(200, json.dumps(reply).encode())
    return get_adapter(model).from_wire_response(response, RequestContext.for_model(model))


def usage_of(model: str, reply: dict[str, Any]) -> Usage:
    usage = read(model, reply).usage
    assert usage is not None
    return usage


def handwritten_response(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    counts = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    model = "gpt-4.1-2025-04-14"
    return {"id": "r", "status": "completed", "model": model, "output": [*items, MESSAGES], "usage": counts, **fields}


@pytest.mark.parametrize(
    ("items", "fields", "searches"),
    [
        ((), {}, 0),
        ((SEARCH, OPEN, SEARCH), {}, 2),
        ((BARE,), {}, 1),
        ((SEARCH, SEARCH), {"tool_usage": {"web_search": {"num_requests": 1}}}, 1),
        ((SEARCH,), {"tool_usage": {"web_search": {"num_requests": 0}}}, 0),
        ((SEARCH,), {"tool_usage": {"image_gen": {}}}, 1),
    ],
)
def test_searches_in_the_output_are_charged(
    items: tuple[dict[str, Any], ...], fields: dict[str, Any], searches: int
) -> None:
    """The reply's own count takes precedence; without one each search counts, but no opened page."""
    usage = usage_of("openai:gpt-4.1", handwritten_response(*items, **fields))
    assert usage.server_tools == ({"web_search": searches} if searches else {})
    assert usage.cost_usd == Decimal("0.0028") + searches * Decimal("0.01")


def test_xais_own_count_goes_before_the_output() -> None:
    """It lists every tool, unused ones too."""
    counts = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11}
    counted = {**counts, "server_side_tool_usage_details": {"web_search_calls": 0, "x_search_calls": 1}}
    usage = usage_of("openai:gpt-4.1", handwritten_response(SEARCH, usage=counted))
    assert usage.server_tools == {"x_search": 1}


def handwritten_gemini(**counts: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "usageMetadata": counts}


def test_cached_audio_has_its_own_rate() -> None:
    """70 x 0.30 + 30 x 1.00 + 60 x 0.03 + 40 x 0.10 + 10 x 2.50: text and audio, new and cached, and the answer."""
    usage = usage_of(
        "google:gemini-2.5-flash",
        handwritten_gemini(
            promptTokenCount=200, cachedContentTokenCount=100, candidatesTokenCount=10, totalTokenCount=210,
            promptTokensDetails=[{"modality": "TEXT", "tokenCount": 130}, {"modality": "AUDIO", "tokenCount": 70}],
            cacheTokensDetails=[{"modality": "TEXT", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 40}],
        ),
    )  # fmt: skip
    assert (usage.audio_input_tokens, usage.cached_audio_input_tokens) == (30, 40)
    assert (usage.cost_usd, usage.cost_status) == (Decimal("0.0000818"), CostStatus.PRICED)


def test_an_interaction_counts_its_media_alike() -> None:
    counts = {
        "total_input_tokens": 200, "total_cached_tokens": 100, "total_output_tokens": 10, "total_tokens": 210,
        "input_tokens_by_modality": [{"modality": "text", "tokens": 130}, {"modality": "audio", "tokens": 70}],
        "cached_tokens_by_modality": [{"modality": "text", "tokens": 60}, {"modality": "audio", "tokens": 40}],
    }  # fmt: skip
    steps = [{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}]
    reply = {"id": "i", "status": "completed", "model": "gemini-2.5-flash", "steps": steps, "usage": counts}
    usage = usage_of("google-interactions:gemini-2.5-flash", reply)
    assert (usage.audio_input_tokens, usage.cached_audio_input_tokens) == (30, 40)
    assert usage.cost_usd == Decimal("0.0000818")


def test_a_total_that_differs_from_its_parts_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A warning with both and the field; the buckets stay as reported."""
    with caplog.at_level(logging.WARNING, "dragoman.adapter"):
        usage = usage_of(
            "google:gemini-2.5-flash",
            handwritten_gemini(promptTokenCount=5, candidatesTokenCount=5, totalTokenCount=99),
        )
    assert (usage.total_tokens, usage.reported_total, usage.discrepancy) == (10, 99, 89)
    assert "google:gemini-2.5-flash: the provider reports 99 tokens in total, but its parts add up to 10" in caplog.text


def test_an_invalid_count_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """By name, once per reply; the reply itself is returned."""
    with caplog.at_level(logging.WARNING, "dragoman.adapter"):
        usage = usage_of("openai:gpt-4.1", handwritten_response(usage={"input_tokens": 1000, "output_tokens": -3}))
    assert (usage.input_tokens, usage.output_tokens, usage.unread) == (1000, 0, ("output_tokens",))
    assert (usage.cost_usd, usage.cost_status) == (Decimal("0.002"), CostStatus.PARTIAL)
    assert caplog.text.count("the usage holds no count at output_tokens") == 1


def test_more_cached_than_prompt_tokens_make_the_cost_partial() -> None:
    """Cached tokens are a part of the prompt, so more of them are a contradiction."""
    counts = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 50}}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    usage = usage_of("openai-chat:gpt-4.1", {"id": "x", "model": "gpt-4.1", "choices": [choice], "usage": counts})
    assert (usage.input_tokens, usage.cached_input_tokens) == (0, 10)
    assert usage.cost_status is CostStatus.PARTIAL


HANDWRITTEN_START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
    b'"model":"claude-sonnet-4-6","content":[],"usage":{"input_tokens":1000,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":'
    b'{"type":"text","text":"Half an ans"}}\n\n'
)


def test_the_cost_of_a_broken_stream_is_a_lower_bound() -> None:
    """Its prompt was counted at the start, its answer no longer; it stays a lower bound when it is repriced."""
    adapter = get_adapter("anthropic:claude-sonnet-4-6")
    *_, last = adapter.iter_stream([HANDWRITTEN_START], RequestContext.for_model("anthropic:claude-sonnet-4-6"))
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    for partial in (last.partial, *reprice([last.partial])):
        assert partial.usage is not None
        assert (partial.usage.cost_usd, partial.usage.cost_status) == (Decimal("0.003015"), CostStatus.PARTIAL)
        assert partial.usage.unpriced == ("output_tokens",)
