"""What the tools of one request add to it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.server_tools.encode import encode_server_tool, is_function
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire_diff import merge_fields
from dragoman.adapter.wirejson import assign_path
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.tools.base import ClientTool, ServerTool
from dragoman.canonical.tools.client import CustomTool

_FUNCTION_FIELDS = ("strict", "defer_loading")

RecordLoss = Callable[[LossKind, str, Severity], None]


@dataclass(slots=True)
class ToolsOfRequest:
    """Chooses the tools that a model can use. ``calls_functions``: whether the model can call functions."""

    table: ServerToolTable
    provider: str
    model: str
    record_loss: RecordLoss
    calls_functions: bool
    fields: list[Mapping[str, Any]] = field(default_factory=list)
    """Fields of the body that server tools add."""
    native_calls: dict[str, str] = field(default_factory=dict)
    """The names of the program's tools, by the type of the items that call them."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Items of list headers that server tools add."""

    def choose(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """Return the tools for the list of tools. A server tool becomes the provider's own object; what the provider
        does not have is a loss. Raises UnsupportedToolError.
        """
        kept: list[ToolDefinition] = []
        added = 0
        for tool in tools:
            chosen: ToolDefinition | None = tool
            if isinstance(tool, ServerTool) and not self._is_own(tool):
                words = {each.WORD for each in tools if isinstance(each, ServerTool)}
                chosen = self._encode(tool, words)
                added += chosen is not None and self._is_own(chosen) and not isinstance(tool, ClientTool)
            # Most tools are functions of the program.
            is_function = self.calls_functions and chosen is not None and chosen.provider_raw is None
            if chosen is not None and (is_function or self._is_usable(chosen)):
                if chosen.strict or chosen.defer_loading:
                    self._record_missing_fields(chosen)
                kept.append(chosen)
        # Some providers need a switch if a request has both functions and server tools.
        if 0 < added < len(kept) and (row := self.table.find("mixed", self.model)) is not None:
            self.fields.append(row.body)
        return kept

    def _is_own(self, tool: ToolDefinition) -> bool:
        raw = tool.provider_raw or {}
        return "native" in raw and raw.get("by") == self.provider

    def _is_usable(self, tool: ToolDefinition) -> bool:
        raw = tool.provider_raw or {}
        if "native" not in raw:
            if self.calls_functions:
                return True
            reason = f"{self.model} calls no tools: {tool.name} left out"
        elif raw.get("by") == self.provider:
            return True
        else:
            reason = f"the tool {tool.name} runs at {raw.get('by')} only"
        self.record_loss(LossKind.TOOLS, reason, Severity.WARNING)
        return False

    def _encode(self, tool: ServerTool, words: Collection[str]) -> ToolDefinition | None:
        """Return the provider's own object, or a function of the program; None if it is in another field, or left
        out."""
        if isinstance(tool, ClientTool) and is_function(tool, self.table, self.model):
            return _as_function(tool)
        if isinstance(tool, CustomTool) and tool.provider_raw and self.table.find(tool.WORD, self.model) is None:
            return self._as_unrestricted_function(tool)

        def record_loss(reason: str, severity: Severity) -> None:
            self.record_loss(LossKind.TOOLS, reason, severity)

        encoded = encode_server_tool(tool, self.table, self.provider, self.model, record_loss, words)
        if encoded is None:
            return None
        if encoded.body:
            self.fields.append(encoded.body)
        self.headers += encoded.headers.items()
        if encoded.entry is None:
            return None
        row = self.table.find(tool.WORD, self.model)
        if row is not None and row.call and isinstance(tool, ClientTool):
            self.native_calls[row.call.replace("{name}", tool.name)] = tool.name
        raw = {"by": self.provider, "native": encoded.entry}
        return ToolDefinition(name=tool.name, description=tool.description, provider_raw=raw)

    def _as_unrestricted_function(self, tool: CustomTool) -> ToolDefinition:
        """Return a tool with a grammar as a function. The grammar restricts nothing there, so the description holds
        it."""
        self.record_loss(
            LossKind.TOOLS,
            f"the tool {tool.name}: {self.model} is not held to its grammar: the description says it",
            Severity.WARNING,
        )
        grammar = f"The input must obey this {tool.syntax} grammar:\n{tool.grammar}"
        described = "\n\n".join(filter(None, (tool.description, grammar)))
        return _as_function(tool).model_copy(update={"description": described})

    def _record_missing_fields(self, tool: ToolDefinition) -> None:
        for name in _FUNCTION_FIELDS:
            if getattr(tool, name) and name not in self.table.function_fields:
                reason = f"the tool {tool.name}: {self.provider} has no {name}"
                self.record_loss(LossKind.TOOLS, reason, Severity.INFO)

    def finish_function(self, tool: ToolDefinition, encoded: dict[str, Any]) -> dict[str, Any]:
        """Add the fields of a function that are common to several providers, and those of this provider alone."""
        if tool.strict is None and not tool.defer_loading and not tool.extra:
            return encoded
        for name, path in self.table.function_fields.items():
            value = getattr(tool, name)
            if value or (name == "strict" and value is False):
                assign_path(encoded, path, value)
        own = tool.extra.get(self.provider)
        return merge_fields(encoded, own, lambda *_: None) if own else encoded


def _as_function(tool: ClientTool) -> ToolDefinition:
    shared = {name: getattr(tool, name) for name in ToolDefinition.model_fields if name != "provider_raw"}
    return ToolDefinition(**shared)


def add_fields(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with more fields. Objects are merged, and lists are added to each other."""
    merged = dict(body)
    for name, value in fields.items():
        current = merged.get(name)
        if isinstance(current, Mapping) and isinstance(value, Mapping):
            merged[name] = add_fields(current, value)
        elif isinstance(current, list) and isinstance(value, list):
            merged[name] = [*current, *(item for item in value if item not in current)]
        else:
            merged[name] = value
    return merged
