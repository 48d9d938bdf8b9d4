"""Replies: items to blocks, statuses to stop reasons, counts to buckets."""

from typing import Any

import pytest

from dragoman import DragomanError, WireResponse
from dragoman.adapter import errors
from dragoman.canonical.blocks import Citation, ContentBlock, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Channel, MessageStatus, StopReason
from tests.unit.adapters.openai_responses.wire import ADAPTER, Item, call_item, context, read, response, text_item

CALL = "tu_00000000000000000000000002"

handwritten_citation = {"type": "url_citation", "url": "https://a.test", "title": "A", "start_index": 0, "end_index": 4}
handwritten_search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}
handwritten_custom = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_9", "name": "sh", "input": "ls"}
handwritten_user = {"id": "msg_0", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}

BLOCKS: list[tuple[Item, tuple[ContentBlock, ...]]] = [
    (text_item("Hello"), (TextBlock(text="Hello"),)),
    (
        text_item("", content=[{"type": "output_text", "text": "A is", "annotations": [handwritten_citation]}]),
        (
            TextBlock(
                text="A is",
                citations=(
                    Citation(
                        kind="url_citation", title="A", url="https://a.test", start=0, end=4, data=handwritten_citation
                    ),
                ),
            ),
        ),
    ),
    (
        text_item("", content=[{"type": "output_text", "text": "One"}, {"type": "output_text", "text": "Two"}]),
        (TextBlock(text="One"), TextBlock(text="Two")),
    ),
    (text_item("", content=[{"type": "refusal", "refusal": "No."}]), (TextBlock(text="No."),)),
    (
        text_item("", content=[{"type": "output_music", "score": 1}]),
        (ProviderBlock(provider="openai", kind="message/output_music", data={"type": "output_music", "score": 1}),),
    ),
    (
        text_item("", content=[]),
        (ProviderBlock(provider="openai", kind="message", data=text_item("", content=[])),),
    ),
    (handwritten_user, (ProviderBlock(provider="openai", kind="message", data=handwritten_user),)),
    (
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        (ThinkingBlock(text="", signature="gAAA"),),
    ),
    (
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "then"}],
            "content": [{"type": "reasoning_text", "text": "hidden"}],
        },
        (ThinkingBlock(text="First\n\nthen"),),
    ),
    (
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "openly"}],
            "encrypted_content": "",
        },
        (ThinkingBlock(text="openly"),),
    ),
    (call_item(), (ToolUseBlock(id=CALL, name="weather", input={"city": "Paris"}),)),
    (call_item(""), (ToolUseBlock(id=CALL, name="weather"),)),
    (call_item('{"city":"Pa'), (ToolUseBlock(id=CALL, name="weather", raw_input='{"city":"Pa'),)),
    (call_item("", status="incomplete"), (ToolUseBlock(id=CALL, name="weather", raw_input=""),)),
    (handwritten_search, (ProviderBlock(provider="openai", kind="web_search_call", data=handwritten_search),)),
    (handwritten_custom, (ProviderBlock(provider="openai", kind="custom_tool_call", data=handwritten_custom),)),
]


@pytest.mark.parametrize(("item", "blocks"), BLOCKS)
def test_items_become_blocks(item: Item, blocks: tuple[ContentBlock, ...]) -> None:
    """Text, reasoning and calls have canonical blocks; all other items are kept whole."""
    assert read(response([item])).content == blocks


STOPS: list[tuple[Item, StopReason, MessageStatus]] = [
    (response([text_item("Hi")]), StopReason.END_TURN, MessageStatus.COMPLETE),
    (response([text_item("Hi"), call_item()]), StopReason.TOOL_USE, MessageStatus.COMPLETE),
    (response([handwritten_custom]), StopReason.TOOL_USE, MessageStatus.COMPLETE),
    (response([handwritten_custom, text_item("Hi")]), StopReason.END_TURN, MessageStatus.COMPLETE),
    (response([{"type": "mcp_approval_request", "id": "mcpr_1"}]), StopReason.TOOL_USE, MessageStatus.COMPLETE),
    (
        response([text_item("", content=[{"type": "refusal", "refusal": "No."}])]),
        StopReason.REFUSAL,
        MessageStatus.COMPLETE,
    ),
    (
        response([], status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        StopReason.MAX_TOKENS,
        MessageStatus.COMPLETE,
    ),
    (
        response([], status="incomplete", incomplete_details={"reason": "content_filter"}),
        StopReason.REFUSAL,
        MessageStatus.COMPLETE,
    ),
    (
        response([], status="incomplete", incomplete_details={"reason": "steered"}),
        StopReason.PAUSE,
        MessageStatus.COMPLETE,
    ),
    (response([], status="queued"), StopReason.PAUSE, MessageStatus.PARTIAL),
    (response([], status="in_progress"), StopReason.PAUSE, MessageStatus.PARTIAL),
    (response([], status="cancelled"), StopReason.CANCELLED, MessageStatus.CANCELLED),
]


@pytest.mark.parametrize(("native", "stop_reason", "status"), STOPS)
def test_the_stop_reason_follows_from_status_and_items(
    native: Item, stop_reason: StopReason, status: MessageStatus
) -> None:
    """The wire has no reason; a native call counts only if the reply ends with it."""
    message = read(native)
    assert (message.stop_reason, message.metadata.status) == (stop_reason, status)


@pytest.mark.parametrize(
    ("phases", "channel"),
    [
        (["final_answer"], Channel.FINAL),
        (["commentary", "commentary"], Channel.COMMENTARY),
        (["commentary", "final_answer"], None),
        ([None], None),
    ],
)
def test_the_channel_is_the_common_phase_of_all_message_items(
    phases: list[str | None], channel: Channel | None
) -> None:
    """If they differ, the message has no channel; the items keep their phases."""
    output = [text_item("Hi", **({"phase": phase} if phase else {})) for phase in phases]
    assert read(response(output)).channel is channel


USAGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 15},
            "total_tokens": 120,
        },
        {
            "input_tokens": 10,
            "cached_input_tokens": 60,
            "cache_creation_input_tokens": 30,
            "output_tokens": 20,
            "reasoning_tokens": 15,
        },
    ),
    ({"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}, {"input_tokens": 5, "reasoning_tokens": None}),
    (
        {
            "input_tokens": 5,
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 9},
            "total_tokens": 16,
        },
        {"output_tokens": 11, "reasoning_tokens": 9},
    ),
    (
        {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}, "output_tokens": 2},
        {"input_tokens": 0, "cached_input_tokens": 9, "reported_total": None},
    ),
]


@pytest.mark.parametrize(("counts", "expected"), USAGES)
def test_the_buckets_are_disjoint(counts: dict[str, Any], expected: dict[str, Any]) -> None:
    """Cached tokens leave input_tokens; reasoning counts as output, even if a dialect counts it separately."""
    usage = read(response([], usage=counts, service_tier="flex")).usage
    assert usage is not None
    assert {name: getattr(usage, name) for name in expected} == expected
    assert (usage.raw, usage.service_tier) == (counts, "flex")


def test_a_reply_without_counts_has_no_usage() -> None:
    """Unknown is None, never 0; searches are counted if the reply counts them."""
    assert read(response([])).usage is None
    counted = {"usage": {"input_tokens": 1, "output_tokens": 1}, "tool_usage": {"web_search": {"num_requests": 2}}}
    usage = read(response([], **counted)).usage
    assert usage is not None
    assert usage.server_tools == {"web_search": 2}


def test_provider_raw_keeps_only_facts_about_the_reply() -> None:
    """Ids and details are kept; echoes of the request and empty values are not."""
    native = response(
        [], incomplete_details={"reason": "steered"}, tools=[{}], instructions="x", error=None, billing={}
    )
    raw = read(native).metadata.provider_raw
    assert raw == {
        "by": "openai",
        "id": "resp_1",
        "status": "completed",
        "incomplete_details": {"reason": "steered"},
        "billing": {},
    }


def test_a_failing_status_raises_its_error() -> None:
    """The error has the details of the headers."""
    body = b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
    reply = WireResponse(status=429, body=body, headers={"Retry-After": "2", "x-request-id": "req_1"})
    with pytest.raises(errors.RateLimitError) as caught:
        ADAPTER.from_wire_response(reply, context())
    assert (caught.value.retry_after, caught.value.request_id, caught.value.model) == (2.0, "req_1", "gpt-5.4")


FAILURES: list[tuple[Item, type[DragomanError]]] = [
    (response([], status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}), errors.RateLimitError),
    (response([], status="failed", error={"code": "server_error", "message": "oops"}), errors.ServerError),
    (response([], status="failed", error=None), errors.ServerError),
    ({"error": {"message": "no such model", "code": "model_not_found"}}, errors.NotFoundError),
    ({"object": "response.input_tokens", "input_tokens": 3}, errors.MalformedReplyError),
    (response([call_item(name=None)]), errors.MalformedReplyError),
    (response([text_item("Hi", content=None)]), errors.MalformedReplyError),
]


@pytest.mark.parametrize(("native", "kind"), FAILURES)
def test_a_failed_response_raises_its_error(native: Item, kind: type[DragomanError]) -> None:
    """A failed response raises its own error; another shape is a malformed reply, never a bare KeyError."""
    with pytest.raises(DragomanError) as caught:
        read(native)
    assert type(caught.value) is kind
