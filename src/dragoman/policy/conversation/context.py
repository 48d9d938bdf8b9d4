"""What a session passes to its policy, as extensions: agent, model, tool, provenance and completion; and the observer
of what the policy does.

Of a tool, a policy sees what it does with data. To offer a tool that a provider runs is to call it, as nobody is asked
before it runs. One that is not allowed is withheld: the request leaves without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dragoman.adapter.contract import Adapter
from dragoman.adapter.notes import is_foreign_tool
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.extensions.extensions import AgentExtension
from dragoman.canonical.extensions.slots import (
    CompletionExtension,
    CompletionStopReason,
    CompletionTokens,
    LLMExtension,
    MCPExtension,
    ProvenanceExtension,
    ToolMetadata,
)
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.tools import ServerTool, SideEffects, ToolDefinition
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import Declassification
from dragoman.tools.tool import ACTIONS, SIDE_EFFECTS
from dragoman.tools.toolbox import Toolbox

_STOP_REASONS = {
    StopReason.END_TURN: CompletionStopReason.END,
    StopReason.TOOL_USE: CompletionStopReason.CALL,
    StopReason.MAX_TOKENS: CompletionStopReason.MAX_TOKENS,
    StopReason.STOP_SEQUENCE: CompletionStopReason.STOP_SEQUENCE,
}

_CAPABILITIES = {"supports_images": "vision", "supports_tools": "tool_use", "supports_thinking": "extended_thinking"}
"""Names of model capabilities (docs/reference/cmf.md#extensions)."""

_NO_AGENT, _NO_MODEL = AgentExtension(), LLMExtension()


class PolicyObserver(Protocol):
    """Receives what the policy of a session did; `Telemetry` is one."""

    def on_denial(self, error: PolicyDeniedError) -> None: ...

    def on_declassification(self, record: Declassification) -> None: ...

    def on_headers_written(self, provider: str, names: Sequence[str]) -> None: ...


class PolicyContext:
    """The facts of one session for its policy, built once if they do not change."""

    def __init__(self, session_id: str, agent: AgentExtension | None, toolbox: Toolbox) -> None:
        self._session_id = session_id
        self._facts: dict[str, Any] = {}
        """The number and the input of the turn."""
        self.set_agent(agent)
        self._toolbox = toolbox
        self._tools: dict[str, ToolMetadata | None] = {}
        self._model: tuple[Adapter | None, LLMExtension] = (None, _NO_MODEL)
        self._turn = -1
        self.calls: dict[str, CalledTool] = {}
        """The tools of the session's calls, by the ids of the calls."""

    def set_agent(self, agent: AgentExtension | None) -> None:
        """Set what the program says of the agent. A turn number or an input that it set is not replaced."""
        known = agent or _NO_AGENT
        facts = {"session_id": self._session_id, **self._facts}
        changes = {name: value for name, value in facts.items() if getattr(known, name) is None}
        self._given_agent, self.agent = known, known.model_copy(update=changes) if changes else known

    def next_turn(self, prompt_text: str) -> None:
        """Count the turn."""
        self._turn += 1
        self._facts = {"turn": self._turn, "input": prompt_text}
        self.set_agent(self._given_agent)

    def model(self, adapter: Adapter) -> LLMExtension:
        if self._model[0] is not adapter:
            supported = [word for name, word in _CAPABILITIES.items() if getattr(adapter.capabilities, name)]
            model = LLMExtension(model_id=str(adapter.model_id), provider=adapter.provider, capabilities=supported)
            self._model = (adapter, model)
        return self._model[1]

    def tool(self, name: str) -> ToolMetadata | None:
        """Return the tool's metadata, or None if the session has no such tool."""
        if name not in self._tools:
            tool = self._toolbox.find(name)
            metadata = getattr(tool, "metadata", None)  # of the tool's server
            if tool is not None and not isinstance(metadata, ToolMetadata):
                metadata = describe(tool.definition, None)
            self._tools[name] = metadata
        return self._tools[name]

    def is_foreign(self, tool: ToolDefinition) -> bool:
        """Whether somebody else than the program described the tool: a server, or a client of the program."""
        if is_foreign_tool(tool):
            return True
        described = self.tool(tool.name)
        return described is not None and described.server_id is not None

    def mcp(self, name: str) -> MCPExtension | None:
        tool = self.tool(name)
        return None if tool is None else MCPExtension(tool=tool)

    def note_call(self, use: ToolUseBlock) -> None:
        tool = self.tool(use.name)
        self.calls[use.id] = CalledTool(use.name, None if tool is None else tool.namespace or tool.server_id)

    def input_slots(self, message: Message, adapter: Adapter | None) -> dict[str, Any]:
        """Return the slots of a message for a model; ``adapter`` is None if the model is not known yet."""
        calls = [self.calls[each.tool_use_id] for each in message.tool_results if each.tool_use_id in self.calls]
        tool = self.mcp(calls[0].name) if len(calls) == 1 else None
        slots: dict[str, Any] = {"provenance": provenance(message, tool), "mcp": tool}
        if adapter is not None:
            slots["llm"] = self.model(adapter)
        return slots

    def reply_slots(self, reply: Message, adapter: Adapter) -> dict[str, Any]:
        return {"completion": completion(reply), "provenance": provenance(reply), "llm": self.model(adapter)}


def provenance(message: Message, mcp: MCPExtension | None = None) -> ProvenanceExtension:
    """Return the origin of a message. If it holds a tool's result, ``mcp`` describes the tool."""
    source = "user" if message.role is Role.USER else None
    if mcp is not None and mcp.tool is not None and mcp.tool.server_id is not None:
        source = f"mcp-server:{mcp.tool.server_id}"
    return ProvenanceExtension(source=source, message_id=message.id)


def completion(reply: Message) -> CompletionExtension:
    metadata, usage = reply.metadata, reply.usage
    tokens = None
    if usage is not None:
        counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.output_tokens}
        tokens = CompletionTokens(**counts, total_tokens=usage.total_tokens)
    return CompletionExtension(
        stop_reason=None if metadata.stop_reason is None else _STOP_REASONS.get(metadata.stop_reason),
        tokens=tokens,
        model=metadata.model,
        raw_format=metadata.provider,
        created_at=reply.created_at.isoformat(),
        latency_ms=None if usage is None else usage.latency_ms,
    )


_ACTIONS = {
    SideEffects.READ: ("read",),
    SideEffects.WRITE: ("write",),
    SideEffects.EXECUTE: ("execute",),
    SideEffects.NETWORK: ("export",),
}
"""What a tool does with its input, as data policies name it."""
_SECRETS = frozenset({"authorization", "headers"})
_READ_ONLY = (SideEffects.NONE, SideEffects.READ)


def actions_of(tool: ToolMetadata | None) -> tuple[str, ...]:
    """Return what the tool does with data, as data policies name it. An unknown tool is never run."""
    if tool is None:
        return ()
    annotations: Mapping[str, Any] = tool.annotations
    effects = annotations.get(SIDE_EFFECTS)
    declared = annotations.get(ACTIONS) or ()
    known = _ACTIONS.get(SideEffects(effects), ()) if effects in list(SideEffects) else ()
    outside = ("export",) if annotations.get("openWorldHint") else ()
    return tuple(dict.fromkeys((*known, *outside, *(str(each) for each in declared))))


def describe(tool: ToolDefinition, provider: str | None) -> ToolMetadata:
    """Return the metadata of a tool. A provider that runs it is its namespace."""
    annotations = {SIDE_EFFECTS: str(tool.side_effects), "readOnlyHint": tool.side_effects in _READ_ONLY}
    fields = {"name": tool.name, "description": tool.description or None, "annotations": annotations}
    if provider is None:
        return ToolMetadata(**fields, input_schema=tool.input_schema)
    # Code that the provider runs may send data elsewhere, unless a setting closes its network.
    annotations["openWorldHint"] = getattr(tool, "network", "off") != "off"
    return ToolMetadata(**fields, namespace=provider)


def settings_of(tool: ToolDefinition) -> dict[str, Any]:
    """Return the settings of a tool that a provider runs as JSON, without secrets."""
    names = tool.settings().keys() - _SECRETS if isinstance(tool, ServerTool) else set()
    return tool.model_dump(mode="json", include=names) if names else {}
