"""Reads a provider's own tool in a request as the value that other providers understand, too.

The native object is kept in ``provider_raw``: it goes back to its provider unchanged. A tool with a setting that cannot
be read stays a tool of its provider alone.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.server_tools.encode import BY_PROVIDER
from dragoman.adapter.server_tools.table import ServerToolTable, ToolRow
from dragoman.adapter.wirejson import split_path
from dragoman.canonical import server_tools as kinds
from dragoman.canonical.tools import ClientTool, CustomTool, ServerTool, ToolDefinition

_KINDS: Mapping[str, type[ServerTool]] = {
    kind.WORD: kind
    for kind in (
        kinds.WebSearch, kinds.WebFetch, kinds.CodeExecution, kinds.FileSearch, kinds.ImageGeneration,
        kinds.McpServer, kinds.ToolSearch, kinds.Bash, kinds.TextEditor, kinds.Memory, kinds.ComputerUse,
        kinds.Shell, kinds.ApplyPatch, CustomTool,
    )
}  # fmt: skip


def recognize_tool(tool: ToolDefinition, table: ServerToolTable, provider: str, model: str) -> ToolDefinition:
    """Return the value for a tool that was read from a request; the tool itself if it has none."""
    native = (tool.provider_raw or {}).get("native")
    if native is None:
        return tool
    for word, kind in _KINDS.items():
        row = table.find(word, model)
        if row is not None and row.entry is not None and _matches(row, native):
            try:
                return _read(kind, row, native, tool, provider)
            except ValueError:  # a setting has a value that has no common form, or that the tool does not take
                return tool
    return tool


def _matches(row: ToolRow, native: Mapping[str, Any]) -> bool:
    """Whether the native object is this tool: by its type, or by its only field."""
    template: Mapping[str, Any] = row.entry or {}
    if "type" in native:
        return native["type"] in (template.get("type"), *row.types)
    (name, inner) = next(iter(template.items()), ("", None))
    found = native.get(name, native.get(_snake_case(name), ...))
    wanted = inner.get("name") if isinstance(inner, Mapping) else None
    return found is not ... and (wanted is None or (isinstance(found, Mapping) and found.get("name") == wanted))


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _read(
    kind: type[ServerTool], row: ToolRow, native: Mapping[str, Any], tool: ToolDefinition, provider: str
) -> ServerTool:
    settings: dict[str, Any] = {}
    for name, path in row.fields.items():
        if path.startswith("/"):
            continue
        value = _lookup(native, path)
        if value in (None, [], {}):
            continue
        settings[name] = _read_setting(row, name, value, provider)
    for name, choices in row.choices.items():
        by_type = {choice.get("type"): word for word, choice in choices.items()}
        settings[name] = by_type.get(native.get("type"), "auto")
    names = {"name": tool.name} if issubclass(kind, (ClientTool, kinds.McpServer)) else {}
    fields = {"required": False, **{k: v for k, v in settings.items() if v is not None}, **names}
    value = kind.model_validate(fields)
    return value.model_copy(update={"provider_raw": tool.provider_raw})


def _read_setting(row: ToolRow, name: str, value: Any, provider: str) -> Any:
    if name in row.shapes:
        return _read_shape(row.shapes[name], value)
    if name in row.words:
        return next((ours for ours, theirs in row.words[name].items() if theirs == value), None)
    if name in BY_PROVIDER:
        if name == "container" and not isinstance(value, str):
            return None
        return {provider: value}
    if name == "user_location" and isinstance(value, Mapping):
        return {key: each for key, each in value.items() if key != "type" and each is not None}
    return value


def _lookup(native: Any, path: str) -> Any:
    for step in split_path(path):
        if isinstance(native, list) and step.isdigit() and int(step) < len(native):
            native = native[int(step)]
        elif isinstance(native, Mapping):
            native = native.get(step, native.get(_snake_case(step)))
        else:
            return None
    return native


def _read_shape(shape: str, value: Any) -> Any:
    """Return the setting that is written in a shape. Raises ValueError if it has no common form."""
    match shape, value:
        case "approval", "never" | "always":
            return value
        case "approval", {"always": {"tool_names": [*names]}} if len(value) == 1:
            return names
        case "network_policy", {"type": "disabled"}:
            return "off"
        case "network_policy", {"type": "allowlist", "allowed_domains": [*domains]}:
            return domains
        case "timestamp", _:
            return str(value)[:10]
        case _:
            raise ValueError("a setting without a common form")
