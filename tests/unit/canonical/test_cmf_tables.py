"""The tables of docs/reference/cmf.md: fields row by row, with types and defaults, and closed lists."""

import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import AwareDatetime, BaseModel

from dragoman.canonical.extensions.security import SubjectType
from dragoman.canonical.extensions.slots import CompletionStopReason
from dragoman.canonical.message import Channel, Role
from dragoman.canonical.message_view.kinds import ViewKind
from dragoman.canonical.message_view.view import MessageView
from dragoman.formats.cmf import models as cmf_model
from dragoman.policy import Hook, Mode, PluginResult, Violation, extensions
from tests.tables import each_row

WORDS = {str: "str", int: "int", float: "float", bool: "bool", Any: "any", type(None): "None", datetime: "datetime",
         AwareDatetime: "datetime"}  # fmt: skip


def type_name(annotation: Any) -> str:
    """A type in the notation of the specification: ``str?`` is a text or None, a closed list shows its words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(inner[0])
    if origin is Literal:
        return "|".join(inner)
    if origin in (typing.Union, types.UnionType):
        kinds = [type_name(each) for each in inner if each is not type(None)]
        return "|".join(kinds) + ("?" if type(None) in inner else "")
    names = {list: "list", tuple: "list", frozenset: "set", dict: "dict", Mapping: "dict"}
    if origin in names:
        return f"{names[origin]}[{', '.join(type_name(each) for each in inner if each is not ...)}]"
    if annotation in WORDS:
        return WORDS[annotation]
    if issubclass(annotation, Enum):
        return "|".join(each.value for each in annotation)
    return str(annotation.__name__)


def rows(model: type[BaseModel]) -> list[str]:
    """``name: type`` with the default, or an exclamation mark if there is none."""
    return [f"{name}: {type_name(field.annotation)} {_default(field)}" for name, field in model.model_fields.items()]


def _default(field: Any) -> str:
    if field.is_required():
        return "!"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, datetime):
        return "now"
    if isinstance(value, (list, tuple, dict, set, frozenset)) and not value:
        return "empty"
    return str(value)


SUBJECT = "user|agent|service|system"

EXTENSIONS: dict[str, list[str]] = {
    "RequestExtension": [
        "environment: str? None", "request_id: str? None", "timestamp: str? None", "trace_id: str? None",
        "span_id: str? None",
    ],
    "AgentExtension": [
        "input: str? None", "session_id: str? None", "conversation_id: str? None", "turn: int? None",
        "agent_id: str? None", "parent_agent_id: str? None", "conversation: ConversationContext? None",
    ],
    "ConversationContext": ["history: list[Message] empty", "summary: str? None", "topics: list[str] empty"],
    "HttpExtension": ["headers: dict[str, str] empty"],
    "SecurityExtension": [
        "labels: set[str] empty", "classification: str? None", "subject: SubjectExtension? None",
        "objects: dict[str, ObjectSecurityProfile] empty", "data: dict[str, DataPolicy] empty",
    ],
    "SubjectExtension": [
        "id: str !", f"type: {SUBJECT} !", "roles: set[str] empty", "permissions: set[str] empty",
        "teams: set[str] empty", "claims: dict[str, str] empty",
    ],
    "ObjectSecurityProfile": [
        "managed_by: host|tool|both host", "permissions: list[str] empty",
        "trust_domain: internal|external|privileged? None", "data_scope: list[str] empty",
    ],
    "DataPolicy": [
        "apply_labels: list[str] empty", "allowed_actions: list[str]? None", "denied_actions: list[str] empty",
        "retention: RetentionPolicy? None",
    ],
    "RetentionPolicy": [
        "max_age_seconds: int? None", "policy: session|transient|persistent|none persistent", "delete_after: str? None",
    ],
    "MCPExtension": ["tool: ToolMetadata? None", "resource: ResourceMetadata? None", "prompt: PromptMetadata? None"],
    "ToolMetadata": [
        "name: str !", "title: str? None", "description: str? None", "input_schema: dict[str, any]? None",
        "output_schema: dict[str, any]? None", "server_id: str? None", "namespace: str? None",
        "annotations: dict[str, any] empty",
    ],
    "ResourceMetadata": [
        "uri: str !", "name: str? None", "description: str? None", "mime_type: str? None", "server_id: str? None",
        "annotations: dict[str, any] empty",
    ],
    "PromptMetadata": [
        "name: str !", "description: str? None", "arguments: list[dict[str, any]]? None", "server_id: str? None",
        "annotations: dict[str, any] empty",
    ],
    "CompletionExtension": [
        "stop_reason: end|return|call|max_tokens|stop_sequence? None", "tokens: CompletionTokens? None",
        "model: str? None", "raw_format: str? None", "created_at: str? None", "latency_ms: int? None",
    ],
    "CompletionTokens": ["input_tokens: int !", "output_tokens: int !", "total_tokens: int !"],
    "ProvenanceExtension": ["source: str? None", "message_id: str? None", "parent_id: str? None"],
    "LLMExtension": ["model_id: str? None", "provider: str? None", "capabilities: list[str] empty"],
    "FrameworkExtension": [
        "framework: str? None", "framework_version: str? None", "node_id: str? None", "graph_id: str? None",
        "metadata: dict[str, any] empty",
    ],
    "MetaExtension": ["tags: set[str] empty", "scope: str? None", "properties: dict[str, str] empty"],
    "DelegationExtension": [
        "chain: list[DelegationHop] empty", "depth: int 0", "origin_subject_id: str? None",
        "actor_subject_id: str? None", "delegated: bool False", "age_seconds: float 0.0",
    ],
    "DelegationHop": [
        "subject_id: str !", f"subject_type: {SUBJECT} !", "audience: str? None", "scopes_granted: list[str] empty",
        "timestamp: datetime now", "ttl_seconds: int? None", "strategy: str? None", "from_cache: bool False",
    ],
    "Extensions": [
        "request: RequestExtension? None", "agent: AgentExtension? None", "http: HttpExtension? None",
        "security: SecurityExtension? None", "delegation: DelegationExtension? None", "mcp: MCPExtension? None",
        "completion: CompletionExtension? None", "provenance: ProvenanceExtension? None", "llm: LLMExtension? None",
        "framework: FrameworkExtension? None", "meta: MetaExtension? None", "custom: dict[str, any]? None",
    ],
}  # fmt: skip

TYPES = "file|blob|uri|database|api|memory|artifact"

PARTS: dict[str, list[str]] = {
    "CmfMessage": [
        "schema_version: 2.0 2.0", "role: system|developer|user|assistant|tool !", "content: list[PARTS] empty",
        "channel: analysis|commentary|final? None",
    ],
    "ToolCall": ["tool_call_id: str !", "name: str !", "arguments: dict[str, any] empty", "namespace: str? None"],
    "ToolResult": ["tool_call_id: str !", "tool_name: str !", "content: any None", "is_error: bool False"],
    "Resource": [
        "resource_request_id: str !", "uri: str !", "name: str? None", "description: str? None",
        f"resource_type: {TYPES} !", "content: str? None", "blob: str? None", "mime_type: str? None",
        "size_bytes: int? None", "annotations: dict[str, any] empty", "version: str? None",
    ],
    "ResourceReference": [
        "resource_request_id: str !", "uri: str !", "name: str? None", f"resource_type: {TYPES} !",
        "range_start: int? None", "range_end: int? None", "selector: str? None",
    ],
    "PromptRequest": [
        "prompt_request_id: str !", "name: str !", "arguments: dict[str, any] empty", "server_id: str? None",
    ],
    "PromptResult": [
        "prompt_request_id: str !", "prompt_name: str !", "messages: list[CmfMessage] empty", "content: str? None",
        "is_error: bool False", "error_message: str? None",
    ],
    "ImageSource": ["type: url|base64 !", "data: str !", "media_type: str? None"],
    "TimedSource": ["type: url|base64 !", "data: str !", "media_type: str? None", "duration_ms: int? None"],
    "DocumentSource": ["type: url|base64 !", "data: str !", "media_type: str? None", "title: str? None"],
}  # fmt: skip

KINDS = {
    "text": "TextContent", "thinking": "ThinkingContent", "tool_call": "ToolCall", "tool_result": "ToolResult",
    "resource": "Resource", "resource_ref": "ResourceReference", "prompt_request": "PromptRequest",
    "prompt_result": "PromptResult", "image": "ImageSource", "video": "TimedSource", "audio": "TimedSource",
    "document": "DocumentSource",
}  # fmt: skip


@each_row("name", EXTENSIONS)
def test_a4_extensions(name: str) -> None:
    assert rows(getattr(extensions, name)) == EXTENSIONS[name]


@pytest.mark.parametrize("name", PARTS)
def test_a2_and_a3_messages_and_parts(name: str) -> None:
    """A blob is base64."""
    parts = "|".join(part.__name__ for part in _parts())
    assert rows(getattr(cmf_model, name)) == [row.replace("PARTS", parts) for row in PARTS[name]]


def _parts() -> tuple[type[BaseModel], ...]:
    union: tuple[type[BaseModel], ...] = get_args(get_args(cmf_model.ContentPart)[0])
    return union


def test_a3_twelve_kinds_of_parts() -> None:
    """Each has a required literal for its kind, and its object; texts have their text."""
    found = {type_name(part.model_fields["content_type"].annotation): part for part in _parts()}
    assert list(found) == list(KINDS) == [kind.value for kind in ViewKind]
    for kind, part in found.items():
        assert part.model_fields["content_type"].is_required()
        name = part.__name__ if kind in ("text", "thinking") else type_name(part.model_fields["content"].annotation)
        assert name == KINDS[kind]
        if kind in ("text", "thinking"):
            assert rows(part)[1:] == ["text: str !"]


def test_closed_lists() -> None:
    """Roles, channels, subjects and stop reasons."""
    assert {role.value for role in Role} == {"system", "developer", "user", "assistant", "tool"}
    assert {channel.value for channel in Channel} == {"analysis", "commentary", "final"}
    assert [kind.value for kind in SubjectType] == SUBJECT.split("|")
    assert [reason.value for reason in CompletionStopReason] == ["end", "return", "call", "max_tokens", "stop_sequence"]


def test_every_model_has_its_table() -> None:
    """A new model without one fails here."""
    models = {name for name in extensions.__all__ if hasattr(getattr(extensions, name), "model_fields")}
    assert models == set(EXTENSIONS)


def test_a5_attributes_of_views() -> None:
    names = {name for name in dir(MessageView) if not name.startswith("_")}
    assert names == {
        "kind", "role", "raw", "hook", "content", "uri", "name", "args", "mime_type", "size_bytes", "properties",
        "action", "is_pre", "is_post", "is_tool", "is_prompt", "is_resource", "is_text", "is_media", "environment",
        "request_id", "subject", "roles", "permissions", "teams", "headers", "labels", "agent_input", "session_id",
        "conversation_id", "agent_id", "parent_agent_id", "turn", "object", "data_policy", "has_role",
        "has_permission", "has_label", "has_header", "get_header", "get_arg", "has_arg", "matches_uri_pattern",
        "has_content", "get_property", "to_dict", "to_opa_input", "text", "inner_views",
        "has_address", "uri_meaning", "objects", "data_policies",
    }  # fmt: skip


def test_a6_hooks_and_modes() -> None:
    """Dispatch names: eight with a prefix, request and evaluate without; modes in the order in which they run."""
    assert [hook.value for hook in Hook] == [
        "cmf.llm_input", "cmf.llm_output", "cmf.tool_pre_invoke", "cmf.tool_post_invoke", "cmf.prompt_pre_fetch",
        "cmf.prompt_post_fetch", "cmf.resource_pre_fetch", "cmf.resource_post_fetch", "request", "evaluate",
    ]  # fmt: skip
    assert [mode.value for mode in Mode] == ["sequential", "transform", "audit", "concurrent", "fire_and_forget"]
    assert [mode.value for mode in Mode if mode.can_deny] == ["sequential", "concurrent"]
    assert [mode.value for mode in Mode if mode.can_change] == ["sequential", "transform"]
    assert [field.name for field in fields(PluginResult)] == ["message", "extensions", "violation"]
    assert {field.name for field in fields(Violation)} >= {"reason", "description", "code"}
