"""JSON Schemas as each target takes them (wire reference 2.5, 3.3, 5, 6 and 8.2).

Providers read different parts of JSON Schema. A target says in its models.toml what it takes; a schema is fitted to
that, and what had to go is told to the model in the description beside it, so that it is still asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from dragoman.adapter import wirejson
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import Frozen
from dragoman.canonical.tools import ToolDefinition

if TYPE_CHECKING:
    from dragoman.adapter.outgoing import Outgoing

Schema = dict[str, Any]


class SchemaRule(Frozen):
    """What a target takes of JSON Schema. An empty table or list takes everything."""

    keywords: tuple[str, ...] = ()
    values: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """The values that a keyword may have, such as formats, for keywords that are taken with some values only."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Keywords with another name there: oneOf as anyOf, or const as an enum of one."""
    closed: bool = False
    """Whether every object must say that it allows no other properties."""
    requires: bool = False
    """Whether every object must require one of its properties."""
    root: Literal["any", "object"] = "any"
    """object: the outermost schema says that it is an object, and is no union."""


@dataclass(slots=True)
class Fitted:
    """``dropped`` are JSON paths of constraints that are no longer made, ``changed`` of what has another form."""

    schema: Schema
    dropped: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_UNIONS = ("anyOf", "oneOf")
_META = frozenset({"$schema", "$id", "$comment", "$anchor"})
"""Keywords that say nothing of the value: they go without a word."""
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that forbid nothing."""
_UNTOLD = frozenset({"title", "deprecated", "readOnly", "writeOnly", "definitions", "$defs"})
"""Keywords that the model need not be told of."""
_NESTED_REFERENCES = 8
"""How far references within references are followed; each may be used many times over."""
_REFERENCES = ("#/$defs/", "#/definitions/")


def fitted(schema: Mapping[str, Any], rule: SchemaRule) -> Fitted:
    """The schema as a target takes it. The given one stays as it is."""
    walk = _Walk(rule, schema)
    found = Fitted(dict(schema))
    if rule.root == "object":
        found.schema = walk.rooted(found.schema, found)
    if rule != SchemaRule(root=rule.root):
        found.schema = walk.fit(found.schema, "$", found, ())
    return found


def fit_tools(request: "Outgoing", tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """The tools with schemas as the target takes them; what was read from its own wire goes back as it was."""
    rule = request.adapter.capabilities.tool_schemas
    return [_fit_tool(request, tool, rule) for tool in tools]


def _fit_tool(request: "Outgoing", tool: ToolDefinition, rule: SchemaRule) -> ToolDefinition:
    if (tool.provider_raw or {}).get("by") == request.provider:
        return tool
    found = fitted(tool.input_schema, rule)
    _lose(request, LossKind.TOOLS, f"the tool {tool.name}", found)
    return tool if found.schema == tool.input_schema else tool.model_copy(update={"input_schema": found.schema})


def fit_output(request: "Outgoing") -> Schema:
    """The schema of the answer as the target takes it."""
    found = fitted(request.options.output_schema or {}, request.adapter.capabilities.output_schemas)
    _lose(request, LossKind.OPTION, "output_schema", found)
    return found.schema


def _lose(request: "Outgoing", kind: LossKind, what: str, found: Fitted) -> None:
    model = request.adapter.model
    if found.dropped:
        request.lose(kind, f"{what}: {model} is not held to {_listing(found.dropped)}: the description says it")
    if found.changed:
        request.lose(kind, f"{what}: in another form for {model}: {_listing(found.changed)}", Severity.INFO)


def _listing(paths: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(paths))


class _Walk:
    def __init__(self, rule: SchemaRule, whole: Mapping[str, Any]) -> None:
        self._rule = rule
        self._whole = whole
        self._takes = frozenset(rule.keywords)

    def rooted(self, schema: Schema, found: Fitted) -> Schema:
        """The outermost schema as an object's."""
        if isinstance(schema.get("$ref"), str) and (meant := self._meant(schema["$ref"])) is not None:
            found.changed.append("$.$ref")
            schema = {**meant, **{key: value for key, value in schema.items() if key != "$ref"}}
        unions = [key for key in (*_UNIONS, "allOf", "not", "enum") if key in schema]
        found.dropped += [f"$.{key}" for key in unions]
        kept = {key: value for key, value in schema.items() if key not in unions}
        if kept.get("type") != "object":
            found.changed.append("$.type")
            kept = {**kept, "type": "object"}
        kept.setdefault("properties", {})
        return _told(kept, {key: schema[key] for key in unions})

    def fit(self, schema: Any, path: str, found: Fitted, inside: tuple[str, ...]) -> Any:
        """One schema and those in it. ``inside`` are the references that were followed to get here."""
        if not isinstance(schema, Mapping):
            return schema
        schema, path_of = dict(schema), path
        reference = schema.get("$ref")
        if isinstance(reference, str) and not self._is_taken("$ref"):
            meant = self._meant(reference)
            if meant is None or reference in inside or len(inside) == _NESTED_REFERENCES:
                found.dropped.append(f"{path}.$ref")
                return {key: value for key, value in schema.items() if key == "description"}
            found.changed.append(f"{path}.$ref")
            schema = {**meant, **{key: value for key, value in schema.items() if key != "$ref"}}
            inside = (*inside, reference)
        schema = self._spelt(self._single(schema, path_of, found), path_of, found)
        kept: Schema = {}
        told: Schema = {}
        for key, value in schema.items():
            if self._is_taken(key, value):
                kept[key] = self._inner(key, value, f"{path}.{key}", found, inside)
            elif key not in _META:
                (found.changed if self._is_mere_form(key, value) else found.dropped).append(f"{path}.{key}")
                if key not in _UNTOLD:
                    told[key] = value
        return self._object(_told(kept, told), path, found)

    def _inner(self, key: str, value: Any, path: str, found: Fitted, inside: tuple[str, ...]) -> Any:
        if key in _ONE:
            return self.fit(value, path, found, inside)
        if key in _LISTED and isinstance(value, list):
            return [self.fit(each, f"{path}[{index}]", found, inside) for index, each in enumerate(value)]
        if key in _NAMED and isinstance(value, Mapping):
            return {name: self.fit(each, f"{path}.{name}", found, inside) for name, each in value.items()}
        return value

    def _is_taken(self, key: str, value: Any = None) -> bool:
        if self._takes and key not in self._takes:
            return False
        if self._rule.closed and key == "additionalProperties" and value not in (None, False):
            return False
        return value is None or key not in self._rule.values or value in self._rule.values[key]

    def _is_mere_form(self, key: str, value: Any) -> bool:
        """Whether leaving a keyword out allows nothing more: annotations, and definitions whose references are gone."""
        if key == "additionalProperties":
            return value is True and not self._rule.closed
        return key in _ANNOTATIONS or (key in ("definitions", "$defs") and not self._is_taken("$ref"))

    def _single(self, schema: Schema, path: str, found: Fitted) -> Schema:
        """An allOf of one, or a union with null alone where there are no unions, as what it holds."""
        for key in ("allOf", *_UNIONS):
            branches = schema.get(key)
            if self._is_taken(self._rule.renamed.get(key, key)) or not isinstance(branches, list):
                continue
            telling = [each for each in branches if isinstance(each, Mapping) and each.get("type") != "null"]
            if len(telling) == 1 and (key != "allOf" or len(branches) == 1):
                found.changed.append(f"{path}.{key}")
                schema = {**telling[0], **{other: value for other, value in schema.items() if other != key}}
        return schema

    def _spelt(self, schema: Schema, path: str, found: Fitted) -> Schema:
        for key, name in self._rule.renamed.items():
            if key in schema and name not in schema:
                found.changed.append(f"{path}.{key}")
                value = schema[key]
                renamed = {name: [value] if name == "enum" else value}
                schema = {**{other: each for other, each in schema.items() if other != key}, **renamed}
        return schema

    def _object(self, schema: Schema, path: str, found: Fitted) -> Schema:
        """What the target wants every object to say. It only becomes stricter, so whatever obeys it obeys the first."""
        kind = schema.get("type")
        if not (kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)):
            return schema
        if self._rule.closed:
            if "properties" not in schema and schema.get("additionalProperties") is not False:
                found.dropped.append(path)  # an object with free keys: none are allowed now
            schema = {**schema, "additionalProperties": False}
        properties = schema.get("properties")
        if self._rule.requires and not schema.get("required") and properties and isinstance(properties, Mapping):
            found.changed.append(f"{path}.required")
            schema = {**schema, "required": list(properties)}
        return schema

    def _meant(self, reference: str) -> Schema | None:
        for start in _REFERENCES:
            if reference.startswith(start):
                group = self._whole.get(start[2:-1])
                meant = group.get(reference.removeprefix(start)) if isinstance(group, Mapping) else None
                return dict(meant) if isinstance(meant, Mapping) else None
        return None


def _told(schema: Schema, said: Mapping[str, Any]) -> Schema:
    """The schema whose description says what its keywords no longer can."""
    if not said:
        return schema
    text = "; ".join(f"{key}: {wirejson.dumps_text(value)}" for key, value in said.items())
    before = schema.get("description")
    return {**schema, "description": f"{before} ({text})" if before else text}
