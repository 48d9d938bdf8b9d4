"""Wire to canonical: the content and the usage of Cohere."""

from typing import Any

import pytest

from dragoman import Message
from dragoman.adapter.errors import MalformedReplyError
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import StopReason
from tests.unit.adapters.cohere.wire import Native, body_of, call, read, reply, text

SOURCE = {"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "facts", "text": "Matz made Ruby."}}


def cited_reply(**fields: Any) -> Native:
    return {"start": 0, "end": 4, "text": "Matz", "sources": [SOURCE], "type": "TEXT_CONTENT", **fields}


def test_a_tool_plan_is_thinking_and_returns_as_a_plan() -> None:
    """The plan of a call has its own field, also when it is sent back."""
    message = read(reply("TOOL_CALL", tool_plan="I will look.", tool_calls=[call()]))
    thought, called = message.content
    assert isinstance(thought, ThinkingBlock)
    assert thought.text == "I will look."
    assert isinstance(called, ToolUseBlock)
    assert called.input == {"city": "Paris"}
    body, losses = body_of([message])
    assert body["messages"][0] == {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [call()]}
    assert "thinking" not in losses


def test_reasoning_returns_in_its_place() -> None:
    """Thinking is a part of the content, unsigned, and Cohere's own goes back."""
    native = [{"type": "thinking", "thinking": "Hm."}, text("Hello")]
    message = read(reply(content=native))
    assert message.thinking == "Hm."
    body, _ = body_of([message])
    assert body["messages"][0] == {"role": "assistant", "content": native}


FINISHES = [
    ("COMPLETE", StopReason.END_TURN),
    ("STOP_SEQUENCE", StopReason.STOP_SEQUENCE),
    ("MAX_TOKENS", StopReason.MAX_TOKENS),
    ("ERROR", StopReason.ERROR),
    ("TIMEOUT", StopReason.ERROR),
    ("ERROR_TOXIC", StopReason.REFUSAL),
    ("ERROR_LIMIT", StopReason.CONTEXT_OVERFLOW),
    ("SOMETHING_NEW", StopReason.END_TURN),
]


@pytest.mark.parametrize(("native", "reason"), FINISHES)
def test_every_finish_reason_has_a_meaning(native: str, reason: StopReason) -> None:
    """An unknown word means that the turn is over."""
    assert read(reply(native, content=[text("Hi")])).stop_reason is reason


def test_a_reply_with_calls_ends_for_them() -> None:
    """A reply with calls ends for them, even if the finish reason is COMPLETE."""
    assert read(reply("COMPLETE", tool_calls=[call()])).stop_reason is StopReason.TOOL_USE


def test_billed_units_are_counted() -> None:
    """The processed tokens include Cohere's own prompt, which is not billed; the subsets come from them."""
    counts = {
        "billed_units": {"input_tokens": 267.0, "output_tokens": 66.0, "search_units": 2},
        "tokens": {"input_tokens": 34, "output_tokens": 70, "reasoning_tokens": 7, "image_tokens": 259},
        "cached_tokens": 16,
    }
    usage = read({**reply(content=[text("Hi")]), "usage": counts}).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (267, 0, 66)
    assert (usage.reasoning_tokens, usage.image_input_tokens, usage.server_tools) == (7, 259, {"search": 2})
    assert usage.raw == counts


def test_without_billed_units_the_tokens_count() -> None:
    """In these counts the cached tokens are part of the input."""
    counts = {"tokens": {"input_tokens": 500, "output_tokens": 5}, "cached_tokens": 448}
    usage = read({**reply(content=[text("Hi")]), "usage": counts}).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (52, 448, 5)


@pytest.mark.parametrize("counts", [None, {}, {"tokens": {}}, {"billed_units": {"search_units": 1}}])
def test_unknown_counts_are_none(counts: Any) -> None:
    """A missing usage is not zero."""
    assert read({**reply(content=[text("Hi")]), "usage": counts}).usage is None


def test_citations_belong_to_the_text_that_they_name() -> None:
    """The index counts all parts of the content; without one the first text is meant."""
    native = [{"type": "thinking", "thinking": "Hm."}, text("Matz made it."), text("Matz!")]
    message = read(reply(content=native, citations=[cited_reply(content_index=2), cited_reply()]))
    first, second = (block for block in message.content if isinstance(block, TextBlock))
    (citation,) = second.citations
    assert (citation.title, citation.cited_text, citation.start, citation.end) == ("facts", "Matz made Ruby.", 0, 4)
    assert [each.data for each in first.citations] == [cited_reply()]
    body, _ = body_of([message])
    assert sorted(map(str, body["messages"][0]["citations"])) == sorted(
        map(str, [cited_reply(content_index=2), cited_reply()])
    )


def test_citations_of_a_plan_are_kept() -> None:
    """The canonical form has no place for them."""
    of_the_plan = cited_reply(type="PLAN")
    message = read(reply("TOOL_CALL", tool_plan="Matz", tool_calls=[call()], citations=[of_the_plan]))
    body, _ = body_of([message])
    assert body["messages"][0]["citations"] == [of_the_plan]


CUTS: list[tuple[str, Native, str]] = [
    ('{"city":"Pa', {}, '{"city":"Pa'),
    ("", {}, ""),
    ("[1]", {}, "[1]"),
]


@pytest.mark.parametrize(("arguments", "given", "raw"), CUTS)
def test_truncated_arguments_run_nothing(arguments: str, given: Native, raw: str) -> None:
    """Half an object, or nothing at the limit, stays text."""
    (called,) = read(reply("MAX_TOKENS", tool_calls=[call(arguments)])).content
    assert isinstance(called, ToolUseBlock)
    assert (called.input, called.raw_input) == (given, raw)


def test_no_arguments_are_an_empty_object() -> None:
    (called,) = read(reply("TOOL_CALL", tool_calls=[call("")])).content
    assert isinstance(called, ToolUseBlock)
    assert (called.input, called.raw_input) == ({}, None)


UNKNOWN: list[tuple[Native, ContentBlock]] = [
    (
        {"content": [{"type": "hologram", "data": 1}]},
        ProviderBlock(provider="cohere", kind="hologram", data={"type": "hologram", "data": 1}),
    ),
    (
        {"tool_calls": [{"id": "x", "type": "oracle", "oracle": {}}]},
        ProviderBlock(provider="cohere", kind="oracle", data={"id": "x", "type": "oracle", "oracle": {}}),
    ),
]


@pytest.mark.parametrize(("native", "block"), UNKNOWN)
def test_unknown_content_is_kept_in_its_place(native: Native, block: ContentBlock) -> None:
    """Unknown parts and calls are native blocks."""
    message = read(reply(**native))
    assert message.content == (block,)
    body, _ = body_of([message])
    (field,) = native
    assert body["messages"][0][field] == native[field]


def test_unknown_fields_survive_the_round_trip() -> None:
    native = {
        "content": [{**text("Hi"), "score": 1}],
        "tool_calls": [call(origin="x")],
        "mood": "calm",
    }
    message = read(reply("TOOL_CALL", **native))
    body, _ = body_of([message, Message.tool(message.tool_uses[0].id, "Sunny")])
    assert body["messages"][0] == {"role": "assistant", **native}


@pytest.mark.parametrize("body", [{}, {"message": {"content": [3]}}, {"message": {"tool_calls": [{"function": {}}]}}])
def test_a_reply_of_another_shape_is_malformed(body: Any) -> None:
    """With a typed error, whatever it is."""
    with pytest.raises(MalformedReplyError):
        read(body)
