"""The slots of the extensions, without the messages of the conversation: what MCP servers declare, the chain of
delegation, and the rest. Source: docs/reference/cmf.md#extensions.

Views read these slots, and `Message` returns views, so nothing here may hold a `Message`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, model_validator

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.canonical.extensions.security import SecurityExtension, SubjectType
from dragoman.canonical.frozen import FrozenDict, FrozenList, FrozenObject, FrozenObjects, Names, TextMap
from dragoman.canonical.guard import Count, JsonObject, NameSet, Text


class ToolMetadata(FrozenModel):
    """A tool as its MCP server describes it. ``annotations`` are MCP's hints, such as readOnlyHint and
    destructiveHint."""

    name: Text
    """The tool's name on its server."""
    title: Text | None = None
    """The name for people."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    input_schema: FrozenObject | None = None
    """The JSON schema of the arguments."""
    output_schema: FrozenObject | None = None
    """The JSON schema of structured results, if the server declares one."""
    server_id: Text | None = None
    """The host's name for the server."""
    namespace: Text | None = None
    """The prefix that tells tools of several servers apart."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)


class ResourceMetadata(FrozenModel):
    """A resource as its MCP server describes it."""

    uri: Text
    """The address of the resource, in any scheme."""
    name: Text | None = None
    """The name for people."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    mime_type: Text | None = None
    """The IANA type of the content, if the server declares it."""
    server_id: Text | None = None
    """The host's name for the server."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)
    """MCP's hints, such as audience and priority."""


class PromptMetadata(FrozenModel):
    """A prompt template as its MCP server describes it. ``arguments`` describe the template's parameters: name,
    description and required for each."""

    name: Text
    """The template's name on its server."""
    description: Text | None = None
    """The server's description, which is data from outside and not to be trusted as an instruction."""
    arguments: FrozenObjects | None = None
    server_id: Text | None = None
    """The host's name for the server."""
    annotations: FrozenObject = Field(default_factory=FrozenDict)
    """Hints of the server, as JSON."""


class MCPExtension(FrozenModel):
    """The tool, resource or prompt of an MCP server. By convention, a message sets exactly one of them."""

    tool: ToolMetadata | None = None
    """The tool that the message calls, or whose result it holds."""
    resource: ResourceMetadata | None = None
    """The resource that the message reads or holds."""
    prompt: PromptMetadata | None = None
    """The prompt template that the message requests, or whose result it holds."""


Seconds = Annotated[float, Field(allow_inf_nan=False)]


class DelegationHop(FrozenModel):
    """One step: a subject acts towards ``audience`` with these scopes. ``strategy`` is how its token was obtained."""

    subject_id: Text
    """The subject that acts from here on."""
    subject_type: SubjectType
    """Whether the subject is a user, an agent, a service or the system."""
    audience: Text | None = None
    scopes_granted: Names = Field(default_factory=FrozenList)
    """The scopes that the subject may use in this step."""
    timestamp: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    """When the step was taken, with a time zone."""
    ttl_seconds: Count | None = None
    """How long the token of this step is valid, in seconds; None if that is not known."""
    strategy: Text | None = None
    from_cache: bool = False
    """Whether the token came from a cache and was not requested for this step."""


class DelegationExtension(FrozenModel):
    """A chain that only grows. ``depth`` is its length, the origin its first subject, the actor its last one.

    ``age_seconds`` is the time from the first hop to the last. Fields that are not given are computed from the chain.
    """

    chain: tuple[DelegationHop, ...] = ()
    """The hops in the order in which they were taken."""
    depth: Count = 0
    origin_subject_id: Text | None = None
    """The subject on whose behalf all the others act."""
    actor_subject_id: Text | None = None
    """The subject that acts now."""
    delegated: bool = False
    """Whether somebody acts on behalf of another; True once the chain has a hop."""
    age_seconds: Seconds = 0.0

    @model_validator(mode="after")
    def _fill_from_chain(self) -> Self:
        if self.chain:
            first, last = self.chain[0], self.chain[-1]
            derived = {
                "depth": len(self.chain),
                "origin_subject_id": first.subject_id,
                "actor_subject_id": last.subject_id,
                "delegated": True,
                "age_seconds": (last.timestamp - first.timestamp).total_seconds(),
            }
            self.__dict__.update({name: value for name, value in derived.items() if name not in self.model_fields_set})
        return self

    def with_new_hop(self, hop: DelegationHop) -> "DelegationExtension":
        """Return a new extension with one more hop."""
        origin: dict[str, Any] = {"origin_subject_id": self.origin_subject_id} if self.origin_subject_id else {}
        return DelegationExtension(chain=(*self.chain, hop), **origin)


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
