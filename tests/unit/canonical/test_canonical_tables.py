"""The tables of docs/reference/canonical.md, row by row: names, types, defaults, and our additions."""

import dataclasses
from typing import get_args

import pytest
from pydantic import BaseModel

from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.canonical import blocks, message, message_fields, tools, usage
from dragoman.canonical.events import MessageStart, StreamEvent
from dragoman.canonical.rules import ALLOWED_BLOCKS
from dragoman.canonical.tools import KEYWORDS
from dragoman.routing import RoutingPolicy
from tests.unit.canonical.test_cmf_tables import rows

FIELDS: dict[type[BaseModel], list[str]] = {
    message.Message: [
        "role: user|assistant|system|developer|tool !", "channel: analysis|commentary|final? None",
        "created_at: datetime now", "schema_version: int 1",
    ],
    message.MessageMetadata: [
        "model: str? None", "provider: str? None", "routing: RoutingDecisionRecord? None", "usage: Usage? None",
        "parent_tool_use_id: str? None", "status: complete|partial|cancelled|error complete",
        "provider_raw: dict[str, any]? None", "user_id: str? None", "team_id: str? None",
    ],
    message_fields.RoutingDecisionRecord: [
        "mode: override|manual|rule|pattern|delegate|default !", "chosen_model: str !", "reason: str !",
        "rule_name: str? None", "confidence: float? None", "alternatives_considered: list[str] empty",
    ],
    usage.Usage: [
        "input_tokens: int 0", "output_tokens: int 0", "cached_input_tokens: int 0",
        "cache_creation_input_tokens: int 0", "cost_usd: Decimal? None", "pricing_version: str? None",
        "latency_ms: int? None", "pricing_mode: sync|batch? None",
    ],
    tools.ToolDefinition: [
        "name: str !", "side_effects: none|read|write|execute|network execute", "requires_workspace: bool True",
    ],
    blocks.TextBlock: ["type: text text", "text: str !"],
    blocks.ToolUseBlock: [
        "type: tool_use tool_use", "id: str !", "name: str !", "input: dict[str, any] empty",
    ],
    blocks.ToolResultBlock: ["type: tool_result tool_result", "tool_use_id: str !", "is_error: bool False"],
    blocks.ImageBlock: ["type: image image", "source: MediaSource !", "media_type: str? None"],
    blocks.ThinkingBlock: ["type: thinking thinking", "signature: str? None"],
    blocks.RedactedThinkingBlock: ["type: redacted_thinking redacted_thinking", "data: str !"],
}  # fmt: skip

CAPABILITIES = (
    "thinking", "images", "tools", "system_prompt", "structured_output", "streaming", "streaming_tool_calls",
    "parallel_tool_calls", "prompt_caching", "system_messages_in_list", "batch_api",
)  # fmt: skip

EVENTS = {
    "message_start": ["message_id", "model"],
    "text_delta": ["message_id", "content_block_index", "text"],
    "thinking_delta": ["message_id", "content_block_index", "text", "signature"],
    "tool_use_start": ["message_id", "content_block_index", "tool_use_id", "tool_name"],
    "tool_use_input_delta": ["message_id", "content_block_index", "tool_use_id", "partial_json"],
    "tool_use_end": ["message_id", "content_block_index", "tool_use_id", "final_input"],
    "usage_update": ["message_id", "usage"],
    "message_complete": ["message"],
    "error": ["error", "partial"],
}

SCHEMA_WORDS = {
    "type", "enum", "required", "properties", "items", "description", "format", "const", "title", "default", "examples",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "additionalProperties",
}  # fmt: skip


@pytest.mark.parametrize("model", FIELDS, ids=lambda model: model.__name__)
def test_d2_fields(model: type[BaseModel]) -> None:
    """Each with its type and default; our own fields are listed with them."""
    assert set(FIELDS[model]) <= set(rows(model))


def test_d2_sources_of_images() -> None:
    assert blocks.ImageSource is blocks.MediaSource
    assert {"base64", "url", "file_ref"} <= set(get_args(blocks.MediaSource.model_fields["kind"].annotation))


def test_d2_routing_policies_and_modes() -> None:
    assert [(str(policy), str(policy.mode)) for policy in RoutingPolicy] == [
        ("per_message_override", "override"), ("manual_sticky", "manual"), ("rule", "rule"), ("pattern", "pattern"),
        ("delegate_request", "delegate"), ("workspace_default", "default"), ("global_default", "default"),
    ]  # fmt: skip


def test_d3_roles_and_blocks() -> None:
    """What the first version allows is allowed; what it forbids outright stays forbidden."""
    table = {str(role): kinds for role, kinds in ALLOWED_BLOCKS.items()}
    assert {"text", "image"} <= table["user"]
    assert {"text", "tool_use", "thinking", "redacted_thinking"} <= table["assistant"]
    assert table["tool"] == {"tool_result"}
    assert "text" in table["system"]
    assert not {"tool_use", "tool_result"} & (table["user"] | table["system"] | table["developer"])
    assert "tool_result" not in table["assistant"]


def test_d3_keywords_of_tool_schemas() -> None:
    """The subset is closed: any other keyword is an error."""
    assert KEYWORDS == SCHEMA_WORDS


def test_d5_capabilities() -> None:
    """Each is declared; by default a model has tools and a system prompt, and no answers by schema."""
    found = AdapterCapabilities()
    assert {f"supports_{name}" for name in CAPABILITIES} <= set(AdapterCapabilities.model_fields)
    assert found.supports_tools
    assert found.supports_system_prompt
    assert not found.supports_structured_output
    assert not found.supports_batch_api
    assert not found.supports_thinking
    assert (found.max_context_tokens, found.max_output_tokens) == (8192, 4096)
    assert found.accepted_image_media_types == ()


def test_d6_events() -> None:
    """Nine, with their payloads; the first names the role of its message. What is added has defaults."""
    found = {kind.type: [field.name for field in dataclasses.fields(kind)] for kind in get_args(StreamEvent)}
    added = {"thinking_delta": ["redacted"], "tool_use_start": ["signature"]}
    assert found == {name: fields + added.get(name, []) for name, fields in EVENTS.items()}
    assert MessageStart("m", "a:b").role is message.Role.ASSISTANT


def test_d6_stop_reasons() -> None:
    assert [reason.value for reason in message.StopReason] == [
        "end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "context_overflow", "pause", "cancelled",
        "error",
    ]  # fmt: skip
