"""Extensions: what travels beside a message (CMF A4). Who may see and change which slot: `dragoman.policy.slots`."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.delegation import DelegationExtension, DelegationHop
from dragoman.canonical.extensions.fields import FrozenObject, Names, NameSet, TextMap
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.canonical.extensions.mcp import MCPExtension, PromptMetadata, ResourceMetadata, ToolMetadata
from dragoman.canonical.extensions.security import (
    DataPolicy,
    ObjectSecurityProfile,
    RetentionPolicy,
    SecurityExtension,
    SubjectExtension,
    SubjectType,
)
from dragoman.canonical.frozen import FrozenDict, FrozenList, freeze
from dragoman.canonical.guard import Count, JsonObject, Text
from dragoman.canonical.message import Message

__all__ = [
    "MAX_HISTORY",
    "AgentExtension",
    "CompletionExtension",
    "CompletionStopReason",
    "CompletionTokens",
    "ConversationContext",
    "DataPolicy",
    "DelegationExtension",
    "DelegationHop",
    "Extensions",
    "FrameworkExtension",
    "HttpExtension",
    "LLMExtension",
    "MCPExtension",
    "MetaExtension",
    "ObjectSecurityProfile",
    "PromptMetadata",
    "ProvenanceExtension",
    "RequestExtension",
    "ResourceMetadata",
    "RetentionPolicy",
    "SecurityExtension",
    "SubjectExtension",
    "SubjectType",
    "ToolMetadata",
]

MAX_HISTORY = 100
"""How many messages a window on a conversation may hold."""


class RequestExtension(FrozenModel):
    """``environment`` is a host's word, such as production, staging or dev; trace and span are OpenTelemetry's ids."""

    environment: Text | None = None
    request_id: Text | None = None
    timestamp: Text | None = None
    trace_id: Text | None = None
    span_id: Text | None = None


class ConversationContext(FrozenModel):
    """A window on what was said before: at most 100 messages."""

    history: Annotated[list[Message], Field(max_length=MAX_HISTORY), AfterValidator(freeze)] = Field(
        default_factory=FrozenList
    )
    summary: Text | None = None
    topics: Names = Field(default_factory=FrozenList)


class AgentExtension(FrozenModel):
    """``input`` is what the user wanted in the first place; ``turn`` counts from 0."""

    input: Text | None = None
    session_id: Text | None = None
    conversation_id: Text | None = None
    turn: Count | None = None
    agent_id: Text | None = None
    parent_agent_id: Text | None = None
    conversation: ConversationContext | None = None


class HttpExtension(FrozenModel):
    """Headers by their names as sent. Printing them shows no secret; reading them does."""

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
    """As the provider counted them; the total need not be the sum."""

    input_tokens: Count
    output_tokens: Count
    total_tokens: Count


class CompletionExtension(FrozenModel):
    """How a model's reply ended. ``raw_format`` names its wire, such as chatml, harmony, gemini or anthropic."""

    stop_reason: CompletionStopReason | None = None
    tokens: CompletionTokens | None = None
    model: Text | None = None
    raw_format: Text | None = None
    created_at: Text | None = None
    latency_ms: Count | None = None


class ProvenanceExtension(FrozenModel):
    """``source`` is where the message comes from: user, agent:<id> or mcp-server:<id>."""

    source: Text | None = None
    message_id: Text | None = None
    parent_id: Text | None = None


class LLMExtension(FrozenModel):
    model_id: Text | None = None
    provider: Text | None = None
    capabilities: Names = Field(default_factory=FrozenList)


class FrameworkExtension(FrozenModel):
    """The agent framework around it, such as langgraph, crewai, autogen or a2a."""

    framework: Text | None = None
    framework_version: Text | None = None
    node_id: Text | None = None
    graph_id: Text | None = None
    metadata: FrozenObject = Field(default_factory=FrozenDict)


class MetaExtension(FrozenModel):
    """What the entity is, as its host says: tags here stay, while security labels tell what happened and grow."""

    tags: NameSet = frozenset()
    scope: Text | None = None
    properties: TextMap = Field(default_factory=FrozenDict)


class Extensions(FrozenModel):
    """The slots. All are optional, and frozen all the way down but for ``custom``, which belongs to the plugins.

    Raises pydantic.ValidationError on a slot or field that does not exist, and on a word outside a closed list.
    """

    request: RequestExtension | None = None
    agent: AgentExtension | None = None
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
