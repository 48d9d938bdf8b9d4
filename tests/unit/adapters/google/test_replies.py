"""Whole replies: stop reasons, usage and citations. Replies are handwritten."""

import json
from typing import Any

import pytest

from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import AudioBlock, ImageBlock, ProviderBlock, TextBlock
from dragoman.canonical.message import Message, MessageMetadata, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.google.adapter import GoogleAdapter
from dragoman_adapters.google.decode import decode_usage
from tests.exchanges import load_or_skip
from tests.unit.adapters.google.wire import (
    GEMINI_2,
    GEMINI_3,
    VERTEX,
    body,
    context,
    handwritten_reply,
    read,
    reply_of,
    sse,
    stream_message,
)

CALL = {"functionCall": {"name": "add", "args": {}}}


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("STOP", StopReason.END_TURN),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("CONTINUATION", StopReason.PAUSE),
        ("SAFETY", StopReason.REFUSAL),
        ("RECITATION", StopReason.REFUSAL),
        ("BLOCKLIST", StopReason.REFUSAL),
        ("PROHIBITED_CONTENT", StopReason.REFUSAL),
        ("SPII", StopReason.REFUSAL),
        ("IMAGE_SAFETY", StopReason.REFUSAL),
        ("MODEL_ARMOR", StopReason.REFUSAL),
        ("MALFORMED_FUNCTION_CALL", StopReason.ERROR),
        ("UNEXPECTED_TOOL_CALL", StopReason.ERROR),
        ("TOO_MANY_TOOL_CALLS", StopReason.ERROR),
        ("MISSING_THOUGHT_SIGNATURE", StopReason.ERROR),
        ("OTHER", StopReason.ERROR),
        ("SOMETHING_NEW", StopReason.ERROR),
    ],
)
def test_every_finish_reason_has_a_meaning(reason: str, meaning: StopReason) -> None:
    """Calls finish with STOP; a failure stays a failure even if the reply has a call."""
    assert read(handwritten_reply({"text": "Hm"}, reason=reason)).stop_reason is meaning
    called = read(handwritten_reply(CALL, reason=reason)).stop_reason
    assert called is (StopReason.TOOL_USE if reason == "STOP" else meaning)


@pytest.mark.parametrize(
    ("adapter", "number", "meaning"),
    [
        (GEMINI_3, 1, StopReason.END_TURN),
        (GEMINI_3, 2, StopReason.MAX_TOKENS),
        (GEMINI_3, 3, StopReason.REFUSAL),
        (GEMINI_3, 6, StopReason.ERROR),
        (GEMINI_3, 10, StopReason.ERROR),
        (VERTEX, 1, StopReason.END_TURN),
        (VERTEX, 6, StopReason.REFUSAL),
        (VERTEX, 10, StopReason.REFUSAL),
        (VERTEX, 99, StopReason.ERROR),
    ],
)
def test_numeric_finish_reasons_are_read(adapter: GoogleAdapter, number: int, meaning: StopReason) -> None:
    """The platforms count them differently: 6 is an unsupported language here and a blocked word there."""
    assert read(handwritten_reply({"text": "Hm"}, reason=number), adapter).stop_reason is meaning


def test_a_refusal_without_content_is_a_message() -> None:
    """Its reason and its message are kept, and its tokens are counted."""
    blocked = handwritten_reply(reason="MODEL_ARMOR", finishMessage="Blocked.")
    del blocked["candidates"][0]["content"]
    message = read(blocked)
    assert (message.content, message.stop_reason) == ((), StopReason.REFUSAL)
    assert message.usage is not None
    assert message.metadata.provider_raw is not None
    assert message.metadata.provider_raw["candidate"] == {"finishReason": "MODEL_ARMOR", "finishMessage": "Blocked."}


def test_generated_media_become_blocks() -> None:
    """Pictures and sound; a picture that the model only thought of is not an answer."""
    message = reply_of(
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": "aGk="}},
    )
    assert [type(block) for block in message.content] == [ProviderBlock, ImageBlock, AudioBlock]


def usage_of(**native: Any) -> TokenUsage:
    found = decode_usage(native, {})
    assert found is not None
    return found


def test_tokens_fall_into_disjoint_buckets() -> None:
    """Cached tokens are part of the prompt; thoughts and tools' prompts are counted separately."""
    found = usage_of(
        promptTokenCount=100, cachedContentTokenCount=60, toolUsePromptTokenCount=7, candidatesTokenCount=20,
        thoughtsTokenCount=30, totalTokenCount=157, serviceTier="flex",
        promptTokensDetails=[{"modality": "TEXT", "tokenCount": 60}, {"modality": "AUDIO", "tokenCount": 40}],
        cacheTokensDetails=[{"modality": "AUDIO", "tokenCount": 25}, {"modality": "TEXT", "tokenCount": 35}],
        candidatesTokensDetails=[{"modality": 2, "tokenCount": 20}],
    )  # fmt: skip
    assert (found.input_tokens, found.cached_input_tokens, found.output_tokens) == (47, 60, 50)
    assert (found.reasoning_tokens, found.reported_total, found.total_tokens) == (30, 157, 157)
    assert (found.audio_input_tokens, found.image_output_tokens, found.audio_output_tokens) == (15, 20, 0)
    assert found.service_tier == "flex"


def test_missing_counts_are_unknown() -> None:
    """Counts without the prompt's are discarded; media without a count are unknown, not zero."""
    assert decode_usage({"candidatesTokenCount": 5}, {}) is None
    assert decode_usage(None, {}) is None
    found = usage_of(promptTokenCount=3)
    assert (found.audio_input_tokens, found.reasoning_tokens, found.reported_total) == (None, None, None)
    message = read({**handwritten_reply({"text": "Hi"}), "usageMetadata": {"candidatesTokenCount": 5}})
    assert message.usage is None
    assert message.metadata.provider_raw is not None
    assert message.metadata.provider_raw["usageMetadata"] == {"candidatesTokenCount": 5}


@pytest.mark.parametrize(
    ("traffic", "tier"),
    [("ON_DEMAND", "ON_DEMAND"), (1, "ON_DEMAND"), ("ON_DEMAND_FLEX", "flex"), ("PROVISIONED_THROUGHPUT",) * 2],
)
def test_the_traffic_type_gives_the_tier(traffic: Any, tier: str) -> None:
    """The traffic type gives the tier under the names that requests use for tiers."""
    assert usage_of(promptTokenCount=1, trafficType=traffic).service_tier == tier


def grounded_reply(*texts: str, **grounding: Any) -> Message:
    """Each text has a signature, and so a block of its own."""
    parts = ({"text": text, "thoughtSignature": "c2ln"} for text in texts)
    return read(handwritten_reply(*parts, groundingMetadata=grounding))


WEB = {"web": {"uri": "https://a.example", "title": "A"}}
FILE = {"retrievedContext": {"title": "F", "text": "so it is"}}


def test_neighbouring_texts_are_one_block_as_in_a_stream() -> None:
    """And go back as they came: in their parts, each signature where it was."""
    parts: list[dict[str, Any]] = [
        {"text": "Let me", "thought": True}, {"text": " see.", "thought": True}, {"text": "It is "}, {"text": ""},
        {"text": "Bern."}, {"text": " Yes.", "thoughtSignature": "c2ln"}, {"text": "No."}, {"text": "Well."}, CALL,
    ]  # fmt: skip
    message = read(handwritten_reply(*parts))
    texts = [getattr(block, "text", block.type) for block in message.content]
    assert texts == ["Let me see.", "It is Bern.", " Yes.", "No.Well.", "tool_use"]
    chunks = [handwritten_reply(part, reason=None) for part in parts[:-1]]
    streamed = stream_message(sse(*chunks, handwritten_reply(CALL)))
    assert [getattr(block, "text", block.type) for block in streamed.content] == texts
    assert body(Message.user("Where?"), message)["contents"][1]["parts"] == parts


def test_citation_spans_are_counted_in_bytes() -> None:
    """An accented letter is two bytes and one character; the span lies in the block in which it begins."""
    message = grounded_reply(
        "Ünö. ", "Zwei.",
        groundingChunks=[WEB, FILE],
        groundingSupports=[
            {"segment": {"startIndex": 0, "endIndex": 6, "text": "Ünö."}, "groundingChunkIndices": [0, 1]},
            {"segment": {"startIndex": 7, "endIndex": 12, "text": "Zwei."}, "groundingChunkIndices": [1, 7]},
        ],
    )  # fmt: skip
    first, second = message.content
    assert isinstance(first, TextBlock)
    assert isinstance(second, TextBlock)
    assert [(each.kind, each.title, each.url, each.start, each.end) for each in first.citations] == [
        ("web", "A", "https://a.example", 0, 4), ("retrievedContext", "F", None, 0, 4),
    ]  # fmt: skip
    assert [(each.cited_text, each.start, each.end) for each in second.citations] == [("so it is", 0, 5)]


@pytest.mark.parametrize(
    "segment",
    [
        {"startIndex": 40, "endIndex": 50, "text": "Two"},
        {"text": "Two"},
        {"startIndex": 0, "endIndex": 3, "text": "Two"},
    ],
)
def test_a_wrong_span_is_found_by_its_text(segment: dict[str, Any]) -> None:
    """Its numbers may count text that is not shown."""
    message = grounded_reply(
        "One, Two", groundingChunks=[WEB], groundingSupports=[{"segment": segment, "groundingChunkIndices": [0]}]
    )
    (block,) = message.content
    assert isinstance(block, TextBlock)
    assert [(each.start, each.end) for each in block.citations] == [(5, 8)]


def test_recited_passages_are_citations_too() -> None:
    """They name where the words come from."""
    source = {"startIndex": 0, "endIndex": 2, "uri": "https://b.example", "license": "MIT"}
    (block,) = read(handwritten_reply({"text": "Hi you"}, citationMetadata={"citationSources": [source]})).content
    assert isinstance(block, TextBlock)
    (citation,) = block.citations
    assert (citation.url, citation.start, citation.end, citation.data) == ("https://b.example", 0, 2, source)


@pytest.mark.parametrize(("adapter", "billed"), [(GEMINI_3, 2), (GEMINI_2, 1)])
def test_searches_are_counted_as_the_model_bills_them(adapter: GoogleAdapter, billed: int) -> None:
    """Searches are counted as the model bills them by distinct non-empty query, or once for the prompt; a reply without
    queries costs nothing.
    """
    queries = {"webSearchQueries": ["a", "", "b", "a"]}
    for metadata, count in ((queries, {"web_search": billed}), ({"webSearchQueries": [""]}, {}), ({}, {})):
        message = read(handwritten_reply({"text": "Hm"}, groundingMetadata=metadata), adapter)
        assert message.usage is not None
        assert message.usage.server_tools == count


@pytest.mark.parametrize(
    "segment", [{"endIndex": 6}, {"startIndex": None, "endIndex": 6}, {"startIndex": 0, "endIndex": 6}]
)
def test_a_citation_may_begin_with_the_text(segment: dict[str, Any]) -> None:
    """Google leaves out an index of 0. Its clients get the same span, from any model."""
    support = {"segment": segment, "groundingChunkIndices": [0]}
    message = grounded_reply("Ünö. Zwei.", groundingChunks=[WEB], groundingSupports=[support])
    recited = handwritten_reply({"text": "Ünö. Zwei."}, citationMetadata={"citationSources": [segment]})
    for each in (message, read(recited)):
        (block,) = each.content
        assert isinstance(block, TextBlock)
        assert [(citation.start, citation.end) for citation in block.citations] == [(0, 4)]
    metadata = MessageMetadata(provider="anthropic", model="anthropic:claude-opus-5-5")
    other = message.model_copy(update={"metadata": metadata})
    written = json.loads(GEMINI_3.to_wire_response(other, context(GEMINI_3)).body)
    (found,) = written["candidates"][0]["groundingMetadata"]["groundingSupports"]
    assert found["segment"] == {"startIndex": 0, "endIndex": 6, "text": "Ünö."}


def test_recorded_citations_begin_where_google_says() -> None:
    """The cited span holds the words that Google quotes, also where it names no start."""
    without_start = 0
    for exchange in load_or_skip("google"):
        if exchange.streaming or exchange.status != 200 or not isinstance(exchange.response, dict):
            continue
        for candidate in exchange.response.get("candidates") or ():
            supports = (candidate.get("groundingMetadata") or {}).get("groundingSupports") or ()
            quoted = {each["segment"].get("text") for each in supports if "startIndex" not in each["segment"]}
            if not quoted:
                continue
            message = GEMINI_3.from_wire_response(WireResponse(200, exchange.body), context(GEMINI_3))
            at_start = {
                block.text[: citation.end]
                for block in message.content
                if isinstance(block, TextBlock)
                for citation in block.citations
                if citation.start == 0
            }
            assert quoted <= at_start, exchange.id
            without_start += len(quoted)
    assert without_start
