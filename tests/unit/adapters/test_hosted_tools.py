"""Handwritten replies with tools that a provider ran: each run has a price, or makes the cost partial."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.pricing import price_table, reprice
from tests.tables import each_row

CHAT_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def responses(*kinds: str, **usage: Any) -> dict[str, Any]:
    items = [{"type": kind, "id": f"item_{index}", "status": "completed"} for index, kind in enumerate(kinds)]
    counts = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **usage}
    return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": items, "usage": counts}


def claude(*blocks: Mapping[str, Any], **counts: int) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 10, "server_tool_use": counts}
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": list(blocks), "usage": usage,
        "stop_reason": "end_turn",
    }  # fmt: skip


def chat(message: Mapping[str, Any], **usage: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi", **message}}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], "usage": CHAT_USAGE | usage}


CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {}}
XAI_DETAILS = {"web_search_calls": 2, "x_search_calls": 1, "mcp_calls": 3, "image_generation_calls": 0}

ROWS: list[tuple[str, Mapping[str, Any], dict[str, int], CostStatus]] = [
    ("openai:gpt-5.1", responses("file_search_call", "file_search_call"), {"file_search": 2}, CostStatus.PRICED),
    ("openai:gpt-5.1", responses("mcp_call"), {"mcp": 1}, CostStatus.PRICED),
    ("openai:gpt-5.1", responses("code_interpreter_call"), {"code_interpreter": 1}, CostStatus.PARTIAL),
    ("openai:gpt-5.1", responses("image_generation_call"), {"image_generation": 1}, CostStatus.PARTIAL),
    ("openai:gpt-5.1", responses("shell_call", "shell_call_output"), {"shell": 1}, CostStatus.PARTIAL),
    ("openai:gpt-5.1", responses("shell_call"), {}, CostStatus.PRICED),
    ("openai:gpt-5.1", responses("quantum_call", "tool_search_call"), {"quantum": 1}, CostStatus.PARTIAL),
    (
        "xai:grok-4.3",
        responses(server_side_tool_usage_details=XAI_DETAILS),
        {"web_search": 2, "x_search": 1, "mcp": 3},
        CostStatus.PRICED,
    ),
    (
        "xai:grok-4.3",
        responses(server_side_tool_usage_details={"image_generation_calls": 1}),
        {"image_generation": 1},
        CostStatus.PARTIAL,
    ),
    ("anthropic:claude-opus-5-5", claude(CODE), {"code_execution": 1}, CostStatus.PARTIAL),
    (
        "anthropic:claude-opus-5-5",
        claude(CODE, web_search_requests=1),
        {"web_search_requests": 1},
        CostStatus.PRICED,
    ),
    (
        "anthropic:claude-opus-5-5",
        claude({**CODE, "name": "quantum"}, {**CODE, "name": "tool_search_tool_bm25"}),
        {"quantum": 1},
        CostStatus.PARTIAL,
    ),
    ("anthropic:claude-opus-5-5", claude(web_fetch_requests=2), {"web_fetch_requests": 2}, CostStatus.PRICED),
    (
        "groq:openai/gpt-oss-120b",
        chat({"executed_tools": [{"type": "search", "index": 0}, {"type": "search", "index": 1}]}),
        {"search": 2},
        CostStatus.PARTIAL,
    ),
    (
        "openrouter:openai/gpt-5.1",
        chat({}, server_tool_use_details={"tool_calls_requested": 1, "tool_calls_executed": 1}),
        {},
        CostStatus.PRICED,
    ),
]


@each_row(("model", "body", "tools", "status"), ROWS)
def test_every_run_is_counted(model: str, body: Mapping[str, Any], tools: dict[str, int], status: CostStatus) -> None:
    """A run has a price, or the cost is a lower bound that names the tool; repricing gives the same."""
    body = {**body, "model": model.partition(":")[2]}
    context = RequestContext.for_model(model)
    reply = get_adapter(model).from_wire_response(WireResponse(200, json.dumps(body).encode()), context)
    usage = reply.usage
    assert usage is not None
    assert (usage.server_tools, usage.cost_status) == (tools, status)
    unpriced = [name.removeprefix("server_tools.") for name in usage.unpriced]
    assert unpriced == (list(tools) if status is CostStatus.PARTIAL else [])
    (again,) = reprice([reply])
    assert again.usage == usage


def test_another_model_is_not_billed_as_the_one_asked_for() -> None:
    """An unknown model that answered has no price, and a snapshot has that of its model; repricing agrees."""
    asked = "openai:gpt-5.1"
    prices: dict[str, Usage] = {}
    for served in ("gpt-5.1", "gpt-5.1-2026-11-20", "gpt-nobody-knows"):
        body = json.dumps({**responses(), "model": served}).encode()
        context = RequestContext.for_model(asked)
        reply = get_adapter(asked).from_wire_response(WireResponse(200, body), context)
        (again,) = reprice([reply])
        assert reply.usage is not None
        assert again.usage == reply.usage
        prices[served] = reply.usage
    assert prices["gpt-5.1"].cost_usd == prices["gpt-5.1-2026-11-20"].cost_usd != 0
    assert (prices["gpt-nobody-knows"].cost_usd, prices["gpt-nobody-knows"].cost_status) == (None, CostStatus.UNPRICED)


@each_row(("model", "dollars"), [("mistral:mistral-large-latest", "0.5"), ("azure-openai:deepseek-v4-pro", "1.74")])
def test_the_overlay_has_what_the_source_lacks(model: str, dollars: str) -> None:
    """Names whose prices the data set lacks or has wrong are priced; here a million tokens of input."""
    priced = price_table().price(model, Usage(input_tokens=1_000_000), datetime(2026, 11, 20, tzinfo=UTC))
    assert priced.cost_usd == Decimal(dollars)
