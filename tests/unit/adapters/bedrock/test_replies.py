"""Wire to canonical: the content and the usage of Converse."""

from typing import Any

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.errors import MalformedReplyError
from dragoman.canonical.blocks import (
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import StopReason
from tests.unit.adapters.bedrock.wire import CLAUDE, NOVA, Native, body_of, call, read, reply

STOPS = [
    ("end_turn", StopReason.END_TURN),
    ("tool_use", StopReason.TOOL_USE),
    ("max_tokens", StopReason.MAX_TOKENS),
    ("stop_sequence", StopReason.STOP_SEQUENCE),
    ("guardrail_intervened", StopReason.REFUSAL),
    ("content_filtered", StopReason.REFUSAL),
    ("malformed_model_output", StopReason.ERROR),
    ("malformed_tool_use", StopReason.ERROR),
    ("model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW),
    ("something_new", StopReason.END_TURN),
]


@pytest.mark.parametrize(("native", "reason"), STOPS)
def test_every_stop_reason_has_a_meaning(native: str, reason: StopReason) -> None:
    """An unknown word means that the turn is over."""
    assert read(reply({"text": "Hi"}, stop=native)).stop_reason is reason


def test_cache_counts_are_separate_from_the_input() -> None:
    """So the four buckets add up to the provider's total."""
    counts = {
        "inputTokens": 10,
        "outputTokens": 4,
        "cacheReadInputTokens": 100,
        "cacheWriteInputTokens": 30,
        "cacheDetails": [{"ttl": "5m", "inputTokens": 10}, {"ttl": "1h", "inputTokens": 20}],
        "serverToolUsage": {"webSearchRequests": 2, "none": 0},
        "totalTokens": 144,
    }
    extras: Native = {"serviceTier": {"type": "flex"}, "performanceConfig": {"latency": "optimized"}}
    usage = read(reply({"text": "Hi"}, usage=counts, **extras)).usage
    assert usage is not None
    assert usage.total_tokens == usage.reported_total == 144
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens) == (100, 30)
    assert (usage.cache_creation_1h_input_tokens, usage.server_tools) == (20, {"webSearchRequests": 2})
    assert (usage.service_tier, usage.speed, usage.raw) == ("flex", "optimized", counts)


def test_novas_spelling_of_cache_counts_is_read() -> None:
    """Nova's own bodies spell the cache fields differently."""
    counts = {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokenCount": 3, "cacheWriteInputTokenCount": 4}
    usage = read(reply({"text": "Hi"}, usage=counts)).usage
    assert usage is not None
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens, usage.reported_total) == (3, 4, None)


@pytest.mark.parametrize("counts", [None, {}, {"outputTokens": 5}])
def test_unknown_counts_are_none(counts: Any) -> None:
    """An incomplete usage is None: missing counts are not zero."""
    assert read(reply({"text": "Hi"}, usage=counts)).usage is None


def test_only_signed_thinking_is_sent_back() -> None:
    """Claude gets its own thinking back; thinking of other families is not sent."""
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    redacted = {"reasoningContent": {"redactedContent": "YQ=="}}
    message = read(reply(signed, redacted, {"text": "Hi"}))
    assert message.content == (
        ThinkingBlock(text="Hm.", signature="c2ln"),
        RedactedThinkingBlock(data="YQ=="),
        TextBlock(text="Hi"),
    )
    body, _ = body_of([Message.user("Hi"), message, Message.user("Go on")])
    assert body["messages"][1]["content"] == [signed, redacted, {"text": "Hi"}]
    unsigned = {"reasoningContent": {"reasoningText": {"text": "Hm."}}}
    message = read(reply(unsigned, {"text": "Hi"}), NOVA)
    body, losses = body_of([Message.user("Hi"), message, Message.user("Go on")], model=NOVA)
    assert body["messages"][1]["content"] == [{"text": "Hi"}]
    assert "thinking" in losses


def test_thinking_stays_within_its_family_and_profile() -> None:
    """Another Claude on Bedrock reads it, Nova does not; behind an ARN the family is not known."""
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    history = [Message.user("Hi"), read(reply(signed, {"text": "Hi"})), Message.user("Go on")]
    for model, kept in (("eu.anthropic.claude-opus-4-8", True), (NOVA, False), ("arn:aws:bedrock:x", False)):
        body, _ = body_of(history, model=model)
        assert (signed in body["messages"][1]["content"]) is kept, model
    profile = "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"
    history[1] = read(reply(signed, {"text": "Hi"}), profile)
    body, _ = body_of(history, model=profile)
    assert signed in body["messages"][1]["content"]


def test_calls_have_a_type_in_replies_only() -> None:
    """It is not sent again: the API has no such type."""
    message = read(reply(call(type="tool_use"), stop="tool_use"))
    (called,) = message.tool_uses
    assert called.input == {"city": "Paris"}
    body, _ = body_of([Message.user("Hi"), message, Message.tool(called.id, "Sunny")])
    assert body["messages"][1]["content"] == [call()]
    assert body["messages"][2]["content"][0]["toolResult"]["toolUseId"] == "tooluse_1"


def test_server_tools_of_bedrock_are_kept_whole() -> None:
    """Its calls are not ours to answer; calls and results go back in their place."""
    ran = [call(type="server_tool_use"), {"toolResult": {"toolUseId": "tooluse_1", "content": [], "type": "x_result"}}]
    message = read(reply(*ran, {"text": "Found."}), NOVA)
    assert [block.type for block in message.content] == ["provider", "provider", "text"]
    assert message.tool_uses == ()
    body, _ = body_of([Message.user("Hi"), message, Message.user("Go on")], model=NOVA)
    assert body["messages"][1]["content"] == [*ran, {"text": "Found."}]


def source(**location: Any) -> Native:
    return {"title": "facts", "sourceContent": [{"text": "Matz "}, {"text": "did."}], "location": location}


LOCATIONS: list[tuple[Native, tuple[str, str | None, int | None, int | None]]] = [
    (source(documentChar={"documentIndex": 0, "start": 2, "end": 9}), ("documentChar", None, 2, 9)),
    (source(documentPage={"documentIndex": 0, "start": 2, "end": 9}), ("documentPage", None, None, None)),
    (source(web={"url": "https://x.test", "domain": "x.test"}), ("web", "https://x.test", None, None)),
    ({**source(), "source": "s3://b/k"}, ("citation", "s3://b/k", None, None)),
]


@pytest.mark.parametrize(("native", "facts"), LOCATIONS)
def test_citations_belong_to_their_text(native: Native, facts: tuple[str, str | None, int | None, int | None]) -> None:
    """Only spans in characters are converted; the whole citation is kept for the return trip."""
    cited_native = {"citationsContent": {"content": [{"text": "Matz"}, {"text": "."}], "citations": [native]}}
    message = read(reply({"text": "It was "}, cited_native))
    assert message.text == "It was Matz."
    text = message.content[1]
    assert isinstance(text, TextBlock)
    (citation,) = text.citations
    assert (citation.kind, citation.url, citation.start, citation.end) == facts
    assert (citation.title, citation.cited_text) == ("facts", "Matz did.")
    body, _ = body_of([Message.user("Who?"), message, Message.user("Go on")])
    assert body["messages"][1]["content"][1] == cited_native


def test_citations_without_a_text_keep_their_place() -> None:
    """Nova sends them after the text that they cite."""
    cited_native = {"citationsContent": {"citations": [source(web={"url": "https://x.test"})]}}
    message = read(reply({"text": "Found."}, cited_native))
    assert message.content[1] == ProviderBlock(provider="bedrock", kind="citationsContent", data=cited_native)
    body, _ = body_of([Message.user("Who?"), message, Message.user("Go on")])
    assert body["messages"][1]["content"][1] == cited_native


def test_generated_images_become_images() -> None:
    """Their bytes come as base64."""
    message = read(reply({"image": {"format": "png", "source": {"bytes": "YQ=="}}}))
    (image,) = message.content
    assert isinstance(image, ImageBlock)
    assert (image.media_type, image.source.data) == ("image/png", "YQ==")


INPUTS: list[tuple[Any, Native, str | None]] = [
    ({"a": 1}, {"a": 1}, None),
    ('{"half', {}, '{"half'),
    ([1], {}, "[1]"),
]


@pytest.mark.parametrize(("given", "parsed", "raw"), INPUTS)
def test_an_input_that_is_no_object_runs_nothing(given: Any, parsed: Native, raw: str | None) -> None:
    """It stays text."""
    (called,) = read(reply(call(input=given), stop="tool_use")).content
    assert isinstance(called, ToolUseBlock)
    assert (called.input, called.raw_input) == (parsed, raw)


def test_other_reply_fields_are_kept() -> None:
    """Metrics, traces and fields that the model adds."""
    extras: Native = {
        "metrics": {"latencyMs": 5},
        "trace": {"guardrail": {}},
        "additionalModelResponseFields": {"x": 1},
    }
    raw = read(reply({"text": "Hi"}, **extras)).metadata.provider_raw
    assert raw is not None
    assert raw.items() >= extras.items()


def test_a_reply_in_anthropics_form_is_read_as_such() -> None:
    """The message names the requested model: Bedrock does not know Anthropic's name."""
    native = {
        "id": "msg_bdrk_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t_1", "name": "weather", "input": {}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    message = read(native)
    assert (message.text, message.stop_reason, message.metadata.provider) == ("Hi", StopReason.TOOL_USE, "bedrock")
    assert message.metadata.model == f"bedrock:{CLAUDE}"
    history = [Message.user("Hi"), message, Message.tool(message.tool_uses[0].id, "Sunny")]
    body, losses = body_of(history)
    assert body["messages"][1]["content"][1] == {"toolUse": {"toolUseId": "t_1", "name": "weather", "input": {}}}
    assert losses == ("tools",)
    body, _ = body_of(history, options=AdapterOptions(extra={"bedrock": {"anthropic_version": "x"}}))
    assert body["messages"][1]["content"] == native["content"]


@pytest.mark.parametrize("body", [{}, {"results": [{"outputText": "Hi"}]}, {"output": {"message": {"content": [3]}}}])
def test_a_reply_of_another_shape_is_malformed(body: Native) -> None:
    with pytest.raises(MalformedReplyError):
        read(body)
