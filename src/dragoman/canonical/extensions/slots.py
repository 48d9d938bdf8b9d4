"""The slots of the extensions, without the messages of the conversation. Source: docs/reference/cmf.md#extensions.

Views read these slots, and `Message` returns views, so nothing here may hold a `Message`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.delegation import DelegationExtension
from dragoman.canonical.extensions.fields import FrozenObject, Names, NameSet, TextMap
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.canonical.extensions.mcp import MCPExtension
from dragoman.canonical.extensions.security import SecurityExtension
from dragoman.canonical.frozen import FrozenDict, FrozenList
from dragoman.canonical.guard import Count, JsonObject, Text


class RequestExtension(FrozenModel):
    """``environment`` is the host's name for it (production, staging, dev). Trace and span are OpenTelemetry ids."""

    environment: Text | None = None
    request_id: Text | None = None
    timestamp: Text | None = None
    trace_id: Text | None = None
    span_id: Text | None = None


class BaseAgentExtension(FrozenModel):
    """`AgentExtension` without the conversation, which holds messages."""

    input: Text | None = None
    session_id: Text | None = None
    conversation_id: Text | None = None
    turn: Count | None = None
    agent_id: Text | None = None
    parent_agent_id: Text | None = None


class HttpExtension(FrozenModel):
    """Headers by their names as sent. The repr masks secrets; the mapping does not."""

    headers: TextMap = Field(default_factory=FrozenDict)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield "headers", {name: "***" if is_sensitive(name) else value for name, value in self.headers.items()}


class CompletionStopReason(StrEnum):
    END = "end"
    RETURN = "return"
    CALL = "call"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"


class CompletionTokens(FrozenModel):
    """The provider's own counts. The total need not be the sum."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count


class CompletionExtension(FrozenModel):
    """How a reply ended. ``raw_format`` names its wire, such as chatml, harmony, gemini or anthropic."""

    stop_reason: CompletionStopReason | None = None
    tokens: CompletionTokens | None = None
    model: Text | None = None
    raw_format: Text | None = None
    created_at: Text | None = None
    latency_ms: Count | None = None


class ProvenanceExtension(FrozenModel):
    """``source`` is the origin of the message: user, agent:<id> or mcp-server:<id>."""

    source: Text | None = None
    message_id: Text | None = None
    parent_id: Text | None = None


class LLMExtension(FrozenModel):
    model_id: Text | None = None
    provider: Text | None = None
    capabilities: Names = Field(default_factory=FrozenList)


class FrameworkExtension(FrozenModel):
    """The agent framework in use, such as langgraph, crewai, autogen or a2a."""

    framework: Text | None = None
    framework_version: Text | None = None
    node_id: Text | None = None
    graph_id: Text | None = None
    metadata: FrozenObject = Field(default_factory=FrozenDict)


class MetaExtension(FrozenModel):
    """The host's description of the entity. Tags do not change; security labels grow with what happens to the data."""

    tags: NameSet = frozenset()
    scope: Text | None = None
    properties: TextMap = Field(default_factory=FrozenDict)


class BaseExtensions(FrozenModel):
    """`Extensions` without the messages of the conversation."""

    request: RequestExtension | None = None
    agent: BaseAgentExtension | None = None
    http: HttpExtension | None = None
    security: SecurityExtension | None = None
    delegation: DelegationExtension | None = None
    mcp: MCPExtension | None = None
    completion: CompletionExtension | None = None
    provenance: ProvenanceExtension | None = None
    llm: LLMExtension | None = None
    framework: FrameworkExtension | None = None
    meta: MetaExtension | None = None
    custom: JsonObject | None = None
