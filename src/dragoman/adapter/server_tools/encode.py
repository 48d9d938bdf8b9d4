"""What the tools of one request add to it, and server tools by the table of the model's adapter. `SHAPES` are settings
that a wire writes in another shape."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.errors import UnsupportedToolError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests.schemas import form_check
from dragoman.adapter.server_tools.table import ServerToolTable, ToolRow, providers_with
from dragoman.adapter.wire_diff import merge_fields
from dragoman.adapter.wirejson import assign_path, dumps_text, split_path
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.tools import ClientTool, CustomTool, ProviderTool, ServerTool, ToolDefinition


def are_plain(tools: Sequence[ToolDefinition], capabilities: AdapterCapabilities) -> bool:
    """Whether all tools are functions that the model takes as they are: without notes and fields of providers, with
    names and schemas that it accepts. Most tools are, so one loop looks at them."""
    if not capabilities.supports_tools:
        return False
    accepts, fits = capabilities.tool_name_rule.name_check(), form_check(capabilities.tool_schemas)
    for tool in tools:
        values = tool.__dict__  # a model looks for each attribute in all its classes first
        if (
            type(tool) is not ToolDefinition
            or values["provider_raw"] is not None
            or values["strict"] is not None
            or values["defer_loading"]
            or values["extra"]
            or not accepts(values["name"])
            or not fits(values["input_schema"])
        ):
            return False
    return True


@dataclass(slots=True)
class ToolsOfRequest:
    """Chooses the tools that a model can use. ``calls_functions``: whether the model can call functions. ``losses``
    are those of the request, which get what its tools lose."""

    table: ServerToolTable
    provider: str
    model: str
    losses: list[Loss]
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
            if chosen is None or not self._is_usable(chosen):
                continue
            kept.append(chosen)
            for name in ("strict", "defer_loading"):
                if getattr(chosen, name) and name not in self.table.function_fields:
                    self.record_loss(f"the tool {chosen.name}: {self.provider} has no {name}", Severity.INFO)
        # Some providers need a switch if a request has both functions and server tools.
        if 0 < added < len(kept) and (row := self.table.find("mixed", self.model)) is not None:
            self.fields.append(row.body)
        return kept

    def _is_own(self, tool: ToolDefinition) -> bool:
        return "native" in own_notes(tool, self.provider)

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
        self.record_loss(reason, Severity.WARNING)
        return False

    def _encode(self, tool: ServerTool, words: Collection[str]) -> ToolDefinition | None:
        """Return the provider's own object, or a function of the program; None if it is in another field, or left
        out."""
        row = self.table.find(tool.WORD, self.model)
        if isinstance(tool, ClientTool) and row is None:
            if tool.input_schema.get("properties") and not tool.RESTRICTING & tool.settings().keys():
                return _as_function(tool)
            if isinstance(tool, CustomTool) and tool.provider_raw:
                # A grammar restricts nothing in a function, so the description holds it.
                reason = f"the tool {tool.name}: {self.model} is not held to its grammar: the description says it"
                self.record_loss(reason, Severity.WARNING)
                grammar = f"The input must obey this {tool.syntax} grammar:\n{tool.grammar}"
                described = "\n\n".join(filter(None, (tool.description, grammar)))
                return _as_function(tool).model_copy(update={"description": described})
        try:
            entry = self._encode_native(tool, row, words)
        except UnsupportedToolError as error:
            if tool.required:
                raise
            self.record_loss(f"{error.args[0]}: left out", Severity.WARNING)
            return None
        if entry is None:
            return None
        if row is not None and row.call and isinstance(tool, ClientTool):
            self.native_calls[row.call.replace("{name}", tool.name)] = tool.name
        raw = {"by": self.provider, "native": entry}
        return ToolDefinition(name=tool.name, description=tool.description, provider_raw=raw)

    def _encode_native(self, tool: ServerTool, row: ToolRow | None, words: Collection[str]) -> dict[str, Any] | None:
        """Return the provider's own object, and add what else the tool needs to the request; None if it is in another
        field. ``words`` are those of all tools.

        Raises UnsupportedToolError if the model lacks the tool, or a setting that restricts it.
        """
        if isinstance(tool, ProviderTool):
            if tool.provider != self.provider:
                raise _absent(tool, f"{tool.name} runs at {tool.provider} only")
            return dict(tool.native)
        if row is None:
            what = tool.WORD if tool.name == tool.WORD else f"{tool.WORD} ({tool.name})"
            where = f"; {self.table.absent}" if self.table.absent else ""
            raise _absent(tool, f"{self.provider}:{self.model} has no {what}{where}", self.provider, self.model)
        if missing := _missing_settings(tool, row, self.provider):
            reason = f"{tool.name}: {self.provider} needs {missing}"
            raise UnsupportedToolError(reason, provider=self.provider, model=self.model)
        if row.part_of:
            self.record_loss(f"{tool.name}: {self.provider} does this as a part of {row.part_of}", Severity.INFO)
        entry, body = None if row.part_of in words else deepcopy(row.entry), deepcopy(row.body)
        for name, value in tool.settings().items():
            for path, written in self._encode_setting(tool, row, name, value):
                target = body if path.startswith("/") else entry
                if target is not None:
                    assign_deep(target, path.removeprefix("/"), written)
        if body:
            self.fields.append(body)
        self.headers += row.headers.items()
        own = tool.extra.get(self.provider)
        return merge_fields(entry, own, lambda *_: None) if own and entry is not None else entry

    def _encode_setting(self, tool: ServerTool, row: ToolRow, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Return what a setting writes, by path; nothing if it is left out. Raises UnsupportedToolError if the setting
        restricts the tool and cannot be sent."""
        if name in BY_PROVIDER:
            value = value.get(self.provider)
        if value is None or value in row.given.get(name, ()):
            return ()
        path, limit = row.fields.get(name), row.limits.get(name)
        if limit is not None and len(value) > limit:
            raise self._lacks(tool, name, f"{self.provider} takes {limit} at most")
        if isinstance(value, str) and (choice := row.choices.get(name, {}).get(value)) is not None:
            return choice.items()
        if (words := row.words.get(name)) is not None:
            if str(value) not in words:
                return self._leave_out(tool, name, f"{value!r} is none of {', '.join(words)}")
            value = words[str(value)]
        if path is None:
            return self._leave_out(tool, name, f"{self.provider}:{self.model} has no such setting")
        if reason := row.approximate.get(name):
            self.record_loss(f"{tool.name}: {name}: {reason}", Severity.INFO)
        shape = SHAPES.get(row.shapes.get(name, ""))
        try:
            values = shape(path, value) if shape else {path: _to_json(value)}
        except (KeyError, TypeError):
            return self._leave_out(tool, name, "the value has no form on this wire")
        return [*values.items(), *row.along.get(name, {}).items()]

    def _leave_out(self, tool: ServerTool, name: str, why: str) -> Iterable[tuple[str, Any]]:
        if name in tool.RESTRICTING:
            raise self._lacks(tool, name, why)
        self.record_loss(f"{tool.name}: {name}: {why}", Severity.INFO)
        return ()

    def _lacks(self, tool: ServerTool, name: str, why: str) -> UnsupportedToolError:
        reason = f"{tool.name}: {name} restricts the tool, and {why}: remove it, or choose another model"
        return UnsupportedToolError(reason, provider=self.provider, model=self.model)

    def record_loss(self, reason: str, severity: Severity) -> None:
        self.losses.append(Loss(LossKind.TOOLS, "", -1, reason, severity))

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


def _absent(tool: ServerTool, reason: str, provider: str = "", model: str = "") -> UnsupportedToolError:
    """Return the error of a tool that the model lacks."""
    if tool.required:
        found = providers_with(tool.WORD)
        advice = f" (providers that have it: {', '.join(found)})" if found else ""
        reason = f"{reason}{advice}; required=False leaves it out"
    return UnsupportedToolError(reason, provider=provider, model=model)


def _missing_settings(tool: ServerTool, row: ToolRow, provider: str) -> str:
    settings = tool.settings()
    needed = ((name, settings.get(name)) for name in row.needed)
    lacking = [name for name, value in needed if not (value.get(provider) if isinstance(value, Mapping) else value)]
    if lacking:
        return " and ".join(lacking)
    some = [name for name in row.together if name in settings]
    return "" if not some or len(some) == len(row.together) else f"all of {', '.join(row.together)}"


BY_PROVIDER = frozenset({"container", "files", "stores"})
"""Settings that are ids of single providers."""


def assign_deep(target: Any, path: str, value: Any) -> None:
    """Set the value at a path, whose numbers are positions in lists. A list is appended to a list."""
    *outer, last = split_path(path)
    for step in outer:
        target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
    key: Any = int(last) if isinstance(target, list) else last
    current = target.get(key) if isinstance(target, dict) else None
    target[key] = [*current, *value] if isinstance(current, list) and isinstance(value, list) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, FrozenModel):
        return value.model_dump(mode="json", exclude_none=True)
    return list(value) if isinstance(value, tuple) else value


_SIGNS = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _write_condition(condition: Mapping[str, Any]) -> str:
    """Write a filter as an expression of the list filters of Google's APIs (https://google.aip.dev/160)."""
    kind = condition["type"]
    if kind in ("and", "or"):
        return "(" + f" {kind.upper()} ".join(map(_write_condition, condition["filters"])) + ")"
    return f"{condition['key']} {_SIGNS[kind]} {dumps_text(condition['value'])}"


SHAPES: Mapping[str, Callable[[str, Any], Mapping[str, Any]]] = {
    "allowed_mode": lambda path, names: {path: [{"mode": "any", "tools": list(names)}]},
    "american_date": lambda path, day: {path: day.strftime("%m/%d/%Y")},
    "approval": lambda path, which: {
        path: which if isinstance(which, str) else {"always": {"tool_names": list(which)}}
    },
    "bearer": lambda path, token: {path: f"Bearer {token}"},
    "disabled_tools": lambda path, names: {path: {name: {"enabled": False} for name in names}},
    # All tools of a toolset except the named ones are disabled.
    "enabled_tools": lambda path, names: {
        "default_config.enabled": False,
        path: {name: {"enabled": True} for name in names},
    },
    "expression": lambda path, condition: {path: _write_condition(condition)},
    "minus": lambda path, domains: {path: [f"-{domain}" for domain in domains]},
    # A server's name also names the toolset that refers to it.
    "named_toolset": lambda path, name: {path: name, "mcp_server_name": name},
    "network_policy": lambda path, network: {
        path: {"type": "disabled"} if network == "off" else {"type": "allowlist", "allowed_domains": list(network)}
    },
    "pixels": lambda path, display: {f"{path}_width_px": display[0], f"{path}_height_px": display[1]},
    "timestamp": lambda path, day: {path: f"{day.isoformat()}T00:00:00Z"},
    "width_and_height": lambda path, display: {f"{path}_width": display[0], f"{path}_height": display[1]},
}
"""Settings that a wire writes in another shape, by the word in its table: each function returns values by path."""
