"""Encodes server tools for one model, by the table of its adapter."""

from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.errors import UnsupportedToolError
from dragoman.adapter.losses import Severity
from dragoman.adapter.server_tools.shapes import SHAPES
from dragoman.adapter.server_tools.table import ServerToolTable, ToolRow, providers_with
from dragoman.adapter.wire_diff import merge_fields
from dragoman.adapter.wirejson import split_path
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.tools.base import ClientTool, ProviderTool, ServerTool

RecordLoss = Callable[[str, Severity], None]


@dataclass(slots=True)
class EncodedTool:
    """What one tool adds to a request: its object in the list of tools, fields of the body, and headers."""

    entry: dict[str, Any] | None
    body: dict[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def encode_server_tool(
    tool: ServerTool,
    table: ServerToolTable,
    provider: str,
    model: str,
    record_loss: RecordLoss,
    words: Collection[str] = (),
) -> EncodedTool | None:
    """Return what the tool adds to a request; None if it is left out. ``words`` are those of all tools.

    Raises UnsupportedToolError if the model lacks the tool, or a setting that restricts it.
    """
    if isinstance(tool, ProviderTool):
        if tool.provider == provider:
            return EncodedTool(dict(tool.native))
        _leave_out(tool, f"{tool.name} runs at {tool.provider} only", record_loss)
        return None
    row = table.find(tool.WORD, model)
    if row is not None and (missing := _missing_settings(tool, row, provider)):
        reason = f"{tool.name}: {provider} needs {missing}"
        if not tool.required:
            _leave_out(tool, reason, record_loss)
            return None
        raise UnsupportedToolError(reason, provider=provider, model=model)
    if row is None:
        what = tool.WORD if tool.name == tool.WORD else f"{tool.WORD} ({tool.name})"
        where = f"; {table.absent}" if table.absent else ""
        _leave_out(tool, f"{provider}:{model} has no {what}{where}", record_loss, provider, model)
        return None
    if row.part_of:
        record_loss(f"{tool.name}: {provider} does this as a part of {row.part_of}", Severity.INFO)
    encoded = EncodedTool(None if row.part_of in words else deepcopy(row.entry), deepcopy(row.body), row.headers)
    try:
        _ToolEncoder(tool, row, provider, model, record_loss, encoded).encode()
    except UnsupportedToolError as error:
        if tool.required:
            raise
        _leave_out(tool, error.args[0], record_loss)
        return None
    if (own := tool.extra.get(provider)) and encoded.entry is not None:
        encoded.entry = merge_fields(encoded.entry, own, lambda *_: None)
    return encoded


def is_function(tool: ClientTool, table: ServerToolTable, model: str) -> bool:
    """Whether the model gets the tool as an ordinary function, without a loss."""
    plain = "properties" in tool.input_schema and not tool.RESTRICTING & tool.settings().keys()
    return plain and bool(tool.input_schema["properties"]) and table.find(tool.WORD, model) is None


def _leave_out(tool: ServerTool, reason: str, record_loss: RecordLoss, provider: str = "", model: str = "") -> None:
    if tool.required:
        found = providers_with(tool.WORD)
        advice = f" (providers that have it: {', '.join(found)})" if found else ""
        raise UnsupportedToolError(f"{reason}{advice}; required=False leaves it out", provider=provider, model=model)
    record_loss(f"{reason}: left out", Severity.WARNING)


def _missing_settings(tool: ServerTool, row: ToolRow, provider: str) -> str:
    settings = tool.settings()
    lacking = [name for name in row.needed if not _for_provider(settings.get(name), provider)]
    if lacking:
        return " and ".join(lacking)
    some = [name for name in row.together if name in settings]
    return "" if not some or len(some) == len(row.together) else f"all of {', '.join(row.together)}"


def _for_provider(value: Any, provider: str) -> Any:
    """Return the value for the provider of a setting that is given by provider."""
    return value.get(provider) if isinstance(value, Mapping) else value


def _lacks(tool: ServerTool, setting: str, provider: str, model: str, why: str = "") -> UnsupportedToolError:
    reason = why or f"{provider}:{model} has no such setting"
    return UnsupportedToolError(
        f"{tool.name}: {setting} restricts the tool, and {reason}: remove it, or choose another model",
        provider=provider,
        model=model,
    )


@dataclass(slots=True)
class _ToolEncoder:
    tool: ServerTool
    row: ToolRow
    provider: str
    model: str
    record_loss: RecordLoss
    encoded: EncodedTool

    def encode(self) -> None:
        for name, value in self.tool.settings().items():
            self._encode_setting(name, value)

    def _encode_setting(self, name: str, value: Any) -> None:
        row = self.row
        by_provider = name in BY_PROVIDER
        if by_provider and (value := value.get(self.provider)) is None:
            return
        given = row.given.get(name, ())
        if value in given:
            return
        path = row.fields.get(name)
        if (limit := row.limits.get(name)) is not None and len(value) > limit:
            raise _lacks(self.tool, name, self.provider, self.model, f"{self.provider} takes {limit} at most")
        if isinstance(value, str) and (choice := row.choices.get(name, {}).get(value)) is not None:
            self._assign_all(choice)
            return
        if name in row.words:
            words = row.words[name]
            if str(value) not in words:
                self._leave_setting_out(name, f"{value!r} is none of {', '.join(words)}")
                return
            value = words[str(value)]
        if path is None:
            self._leave_setting_out(name)
            return
        if reason := row.approximate.get(name):
            self.record_loss(f"{self.tool.name}: {name}: {reason}", Severity.INFO)
        shape = SHAPES.get(row.shapes.get(name, ""))
        try:
            values = shape(path, value) if shape else {path: _to_json(value)}
        except (KeyError, TypeError):
            self._leave_setting_out(name, "the value has no form on this wire")
            return
        self._assign_all(values)
        self._assign_all(row.along.get(name, {}))

    def _leave_setting_out(self, name: str, why: str = "") -> None:
        if name in self.tool.RESTRICTING:
            raise _lacks(self.tool, name, self.provider, self.model, why)
        reason = why or f"{self.provider}:{self.model} has no such setting"
        self.record_loss(f"{self.tool.name}: {name}: {reason}", Severity.INFO)

    def _assign_all(self, values: Mapping[str, Any]) -> None:
        for path, value in values.items():
            in_body = path.startswith("/")
            target = self.encoded.body if in_body else self.encoded.entry
            if target is not None:
                assign_deep(target, path.removeprefix("/"), value)


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
