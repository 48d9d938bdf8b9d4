"""Tool definitions and the JSON Schema subset that every provider supports.

Source: docs/reference/canonical.md#schema-subset.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject, Text


class SideEffects(StrEnum):
    """The side effects of a tool. Confirmation and routing depend on it, so it must be accurate."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"


class ToolDefinition(FrozenModel):
    """A tool that a model may call.

    ``provider_raw`` belongs to the adapter that read the definition from a provider's request: fields without a
    canonical form, or a tool that only that provider runs. It does not count for equality.
    """

    RUN_BY_PROVIDER: ClassVar[bool] = False
    """Whether the provider runs the tool, so that the model need not be able to call functions."""

    name: Text
    """The name of the tool, in snake_case and with at most 64 characters."""
    description: Text = ""
    """What the tool does and when to call it, for the model."""
    input_schema: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments: an object."""
    side_effects: SideEffects = SideEffects.EXECUTE
    """What a call changes; routing and confirmation depend on it."""
    requires_workspace: bool = True
    """Whether a session needs a workspace to have the tool."""
    strict: bool | None = None
    """Whether the provider holds the model to the schema exactly."""
    defer_loading: bool = False
    """Whether the model sees the definition only after a `ToolSearch` found it."""
    extra: Mapping[str, JsonObject] = Field(default_factory=dict)
    """Fields of single providers by name, such as ``{"anthropic": {"allowed_callers": [...]}}``. They are merged into
    that provider's object."""
    provider_raw: JsonObject | None = Field(default=None, repr=False)

    def problems(self) -> list[str]:
        """Return every problem that prevents the registration of the tool; an empty list if there are none."""
        found = (
            [] if _NAME.fullmatch(self.name) else [f"name: {self.name!r} is not snake_case of at most 64 characters"]
        )
        if self.input_schema.get("type") != "object":
            found.append("$.type: a tool's input must be an object")
        return found + schema_problems(self.input_schema)


_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")

_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
KEYWORDS = frozenset(
    {
        "type", "enum", "const", "required", "properties", "items", "description", "title", "format", "default",
        "examples", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern",
        "additionalProperties",
    }
)  # fmt: skip


def schema_problems(schema: Any, path: str = "$") -> list[str]:
    """Return every violation of the schema subset as ``path: problem``."""
    if not isinstance(schema, dict):
        return [f"{path}: a schema must be an object, not {type(schema).__name__}"]
    found = [f"{path}: the keyword {key!r} is outside the subset" for key in schema if key not in KEYWORDS]
    kinds = schema.get("type", [])
    found += [
        f"{path}.type: {kind!r} is not a JSON type"
        for kind in (kinds if isinstance(kinds, list) else [kinds])
        if not (isinstance(kind, str) and kind in _TYPES)
    ]
    properties = schema.get("properties", {})
    if isinstance(properties, dict):
        for name, inner in properties.items():
            found += schema_problems(inner, f"{path}.properties.{name}")
    else:
        found.append(f"{path}.properties: must be an object")
    if "items" in schema:
        found += schema_problems(schema["items"], f"{path}.items")
    found += _required_problems(schema, properties, path)
    if not isinstance(schema.get("additionalProperties", True), bool):
        found.append(f"{path}.additionalProperties: only true or false is in the subset")
    if not isinstance(schema.get("enum", []), list):
        found.append(f"{path}.enum: must be a list")
    return found


def _required_problems(schema: dict[str, Any], properties: Any, path: str) -> list[str]:
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return [f"{path}.required: must be a list of names"]
    known = properties if isinstance(properties, dict) else {}
    return [f"{path}.required: {name!r} is not among the properties" for name in required if name not in known]
