"""Tool definitions with the JSON Schema subset that every provider supports, and the base of tools that a provider
runs or defines, which are in `server_tools`. Source: docs/reference/canonical.md#schema-subset.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

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


class ServerTool(ToolDefinition):
    """A tool that the provider runs. Its calls and results are in the reply, and the program has nothing to do.

    ``extra`` holds fields of single providers by name. They are merged into the provider's own object, and no other
    provider receives them.
    """

    RUN_BY_PROVIDER: ClassVar[bool] = True
    WORD: ClassVar[str]
    """The tool's name in the tables of the adapters."""
    RESTRICTING: ClassVar[frozenset[str]] = frozenset()
    """Settings that forbid something. A request is refused if the provider lacks one of them."""

    side_effects: SideEffects = SideEffects.NETWORK
    requires_workspace: bool = False
    required: bool = True
    """Whether a request is refused if the provider lacks the tool, or a setting that restricts it. Otherwise the tool
    is left out, as a loss."""

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given, by name."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name not in ServerTool.model_fields}
        return {name: value for name, value in fields.items() if value is not None and value not in ((), {})}

    def problems(self) -> list[str]:
        """Return no problem: the schema is the provider's own."""
        return []


class ClientTool(ServerTool):
    """A tool with a schema that the provider knows. ``function`` runs its calls, with the arguments by name.

    A provider that has no such tool gets it as an ordinary function: the behaviour is the program's own.
    """

    RUN_BY_PROVIDER: ClassVar[bool] = False

    side_effects: SideEffects = SideEffects.EXECUTE
    function: Callable[..., Any] | None = Field(default=None, exclude=True, repr=False)

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "function"}


class CustomTool(ClientTool):
    """A tool whose input is a text: ``function(input)``. A grammar restricts the text."""

    WORD: ClassVar[str] = "custom"
    RESTRICTING: ClassVar[frozenset[str]] = frozenset({"grammar"})

    input_schema: JsonObject = Field(
        default_factory=lambda: {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    )
    grammar: Text | None = None
    """The grammar that every input follows, in ``syntax``; None allows any text."""
    syntax: Literal["lark", "regex"] = "lark"
    """The language of the grammar."""

    def settings(self) -> dict[str, Any]:
        shared = {"name": self.name, **({"description": self.description} if self.description else {})}
        return shared if self.grammar is None else shared | super().settings()


class ProviderTool(ServerTool):
    """Any other tool of one provider, in the provider's own form. Other providers do without it, as a loss."""

    WORD: ClassVar[str] = "provider_tool"

    name: Text = "provider_tool"
    required: bool = False
    provider: Text
    """The provider whose tool this is."""
    native: JsonObject
    """The tool as the provider's API takes it, sent verbatim."""

    def __init__(self, provider: str, native: Mapping[str, Any], /, **fields: Any) -> None:
        name = fields.pop("name", None) or native.get("name") or native.get("type") or next(iter(native), "tool")
        super().__init__(**{**fields, "provider": provider, "native": dict(native), "name": name})

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> Self:
        """Validate the fields of a copy, for `model_copy`: the first two are positional arguments here."""
        fields = dict(obj)
        return cls(fields.pop("provider"), fields.pop("native"), **fields)
