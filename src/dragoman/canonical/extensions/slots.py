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
    """The host's own request, in which the message was made. ``environment`` is the host's name for it (production,
    staging, dev). Trace and span are OpenTelemetry ids."""

    environment: Text | None = None
    request_id: Text | None = None
    """The host's id of the request."""
    timestamp: Text | None = None
    """When the request arrived, as an ISO time."""
    trace_id: Text | None = None
    """The trace that the request belongs to."""
    span_id: Text | None = None
    """The span of the trace that the request was made in."""


class BaseAgentExtension(FrozenModel):
    """`AgentExtension` without the conversation, which holds messages."""

    input: Text | None = None
    session_id: Text | None = None
    """The session that the message belongs to."""
    conversation_id: Text | None = None
    """The conversation, if the host counts several sessions as one."""
    turn: Count | None = None
    agent_id: Text | None = None
    """The agent that handles the message."""
    parent_agent_id: Text | None = None
    """The agent that started this one, if another did."""


class HttpExtension(FrozenModel):
    """Headers by their names as sent. The repr masks secrets; the mapping does not."""

    headers: TextMap = Field(default_factory=FrozenDict)
    """The headers of the host's own request. Seen with ``read_headers``, changed with ``write_headers``."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield "headers", {name: "***" if is_sensitive(name) else value for name, value in self.headers.items()}


class CompletionStopReason(StrEnum):
    """Why a model stopped, in CMF's words."""

    END = "end"
    RETURN = "return"
    CALL = "call"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"


class CompletionTokens(FrozenModel):
    """The provider's own counts. The total need not be the sum."""

    input_tokens: Count
    """Tokens of the prompt."""
    output_tokens: Count
    """Tokens of the reply."""
    total_tokens: Count
    """All tokens, as the provider counts them."""


class CompletionExtension(FrozenModel):
    """How a reply ended. ``raw_format`` names its wire, such as chatml, harmony, gemini or anthropic."""

    stop_reason: CompletionStopReason | None = None
    """Why the model stopped: end, return, call, max_tokens or stop_sequence."""
    tokens: CompletionTokens | None = None
    """What the reply used, if the provider reports it."""
    model: Text | None = None
    """The model that answered, in the provider's own words."""
    raw_format: Text | None = None
    created_at: Text | None = None
    """When the reply was made, as an ISO time."""
    latency_ms: Count | None = None
    """The time from the request to the end of the reply, in milliseconds."""


class ProvenanceExtension(FrozenModel):
    """Where a message comes from. ``source`` is the origin of the message: user, agent:<id> or mcp-server:<id>."""

    source: Text | None = None
    message_id: Text | None = None
    """The id of the message."""
    parent_id: Text | None = None
    """The id of the message that this one answers or was made from."""


class LLMExtension(FrozenModel):
    """The model of the conversation."""

    model_id: Text | None = None
    """The model, such as ``anthropic:claude-opus-5-5``."""
    provider: Text | None = None
    """The name of the provider."""
    capabilities: Names = Field(default_factory=FrozenList)
    """What the model can do, in words of the host, such as ``vision``."""


class FrameworkExtension(FrozenModel):
    """The agent framework in use, such as langgraph, crewai, autogen or a2a."""

    framework: Text | None = None
    """The name of the framework, in lower case."""
    framework_version: Text | None = None
    """The version of the framework, as it reports it."""
    node_id: Text | None = None
    """The node of the graph that made the message."""
    graph_id: Text | None = None
    """The graph that the node is part of."""
    metadata: FrozenObject = Field(default_factory=FrozenDict)
    """Anything else that the framework reports, as JSON."""


class MetaExtension(FrozenModel):
    """The host's description of the entity. Tags do not change; security labels grow with what happens to the data."""

    tags: NameSet = frozenset()
    """What the entity is, in words of the host."""
    scope: Text | None = None
    """Where the entity applies, in a word of the host, such as a tenant or a project."""
    properties: TextMap = Field(default_factory=FrozenDict)
    """Further facts about the entity, as texts by name."""


class BaseExtensions(FrozenModel):
    """`Extensions` without the messages of the conversation."""

    request: RequestExtension | None = None
    """The host's own request: its id, time and trace."""
    agent: BaseAgentExtension | None = None
    http: HttpExtension | None = None
    """The headers of the host's own request. Seen with ``read_headers``."""
    security: SecurityExtension | None = None
    """Labels, the caller, and the rules for objects and data."""
    delegation: DelegationExtension | None = None
    """On whose behalf the caller acts. Seen with ``read_delegation``; it only grows."""
    mcp: MCPExtension | None = None
    """What an MCP server says about the tool, resource or prompt at hand."""
    completion: CompletionExtension | None = None
    """How a reply ended."""
    provenance: ProvenanceExtension | None = None
    """Where the message comes from."""
    llm: LLMExtension | None = None
    """The model of the conversation."""
    framework: FrameworkExtension | None = None
    """The agent framework in use."""
    meta: MetaExtension | None = None
    """What the entity is, as its host describes it."""
    custom: JsonObject | None = None
