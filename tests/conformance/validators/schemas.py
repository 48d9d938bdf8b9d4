"""The schemas of answers that each provider takes, written from the reference of its wire: a schema in, its faults out.

A request may have its schema in the wire's own field, as the input of a tool, or in the prompt.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_ANNOTATIONS = {"title", "description", "default", "examples"}
_ANTHROPIC_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "minItems", "anyOf", "allOf", "enum", "const",
    "$defs", "definitions", "$ref", "format", *_ANNOTATIONS,
}  # fmt: skip
_OPENAI_KEYWORDS = {
    *_ANTHROPIC_KEYWORDS, "maxItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "pattern",
}  # fmt: skip
_GOOGLE_KEYWORDS = {
    "type", "format", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf",
    "properties", "additionalProperties", "required", "propertyOrdering", "$defs", "$ref", "$id", "$anchor",
    *_ANNOTATIONS,
}  # fmt: skip
_ANTHROPIC_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}


@dataclass(frozen=True, slots=True)
class SentSchema:
    """``rule`` names the subset; None if the wire takes every schema there."""

    schema: Schema
    rule: str | None = None


def find_schema(adapter: str, body: dict[str, Any]) -> SentSchema | None:
    """Return the schema of the answer, wherever the body has it; None if only the prompt has it."""
    for name, find in _PLACES.items():
        if (found := find(body)) is not None:
            return SentSchema(found, "strict" if name == "openai" and adapter not in _OPENAI else name)
    for tool in body.get("tools", ()):
        function = tool.get("function", tool)
        for key in ("input_schema", "parameters"):
            if isinstance(function.get(key), dict):
                return SentSchema(function[key])
    return None


_OPENAI = {"openai", "openai-chat", "azure-openai"}
"""The adapters of OpenAI's own APIs; other servers with a strict mode have lists of their own."""


def _anthropic_place(body: dict[str, Any]) -> Schema | None:
    return (body.get("output_config") or {}).get("format", {}).get("schema")


def _openai_place(body: dict[str, Any]) -> Schema | None:
    for form in (
        (body.get("text") or {}).get("format", {}),
        (body.get("response_format") or {}).get("json_schema", {}),
    ):
        if form.get("strict"):
            return form.get("schema")
    return None


def _hint_place(body: dict[str, Any]) -> Schema | None:
    return (body.get("text") or {}).get("format", {}).get("schema")


def _chat_place(body: dict[str, Any]) -> Schema | None:
    form = body.get("response_format") or {}
    if not isinstance(form, dict):
        return None
    described = form.get("json_schema") or form
    return described.get("schema") if "schema" in described else form.get("json_schema")


def _ollama_place(body: dict[str, Any]) -> Schema | None:
    return body["format"] if isinstance(body.get("format"), dict) else None


def _google_place(body: dict[str, Any]) -> Schema | None:
    return (body.get("generationConfig") or {}).get("responseJsonSchema")


def _local_place(body: dict[str, Any]) -> Schema | None:
    return body.get("output_schema")


_PLACES: dict[str, Callable[[dict[str, Any]], Schema | None]] = {
    "anthropic": _anthropic_place,
    "openai": _openai_place,
    "hint": _hint_place,
    "chat": _chat_place,
    "ollama": _ollama_place,
    "google": _google_place,
    "local": _local_place,
}


def schema_faults(sent: SentSchema) -> Iterator[str]:
    """Yield what the provider would refuse."""
    if sent.rule == "anthropic":
        yield from _walk(sent.schema, "$", _anthropic)
    elif sent.rule in ("openai", "strict"):
        if sent.schema.get("type") != "object":
            yield "$: the root is not an object"
        yield from _walk(sent.schema, "$", _strict if sent.rule == "strict" else _openai)
    elif sent.rule == "google":
        yield from _walk(sent.schema, "$", _google)


def _walk(schema: Any, path: str, judge: Callable[[Schema], Iterator[str]]) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    yield from (f"{path}: {fault}" for fault in judge(schema))
    for key in ("properties", "$defs", "definitions"):
        for name, inner in schema.get(key, {}).items():
            yield from _walk(inner, f"{path}.{key}.{name}", judge)
    for key in ("anyOf", "allOf", "oneOf", "prefixItems"):
        for index, inner in enumerate(schema.get(key, ())):
            yield from _walk(inner, f"{path}.{key}[{index}]", judge)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _walk(schema[key], f"{path}.{key}", judge)


def _anthropic(schema: Schema) -> Iterator[str]:
    """Objects forbid other properties, and a reference that leads to itself is refused."""
    yield from (f"the keyword {key}" for key in schema.keys() - _ANTHROPIC_KEYWORDS)
    if _is_object(schema) and schema.get("additionalProperties") is not False:
        yield "an object that allows other properties"
    if schema.get("minItems", 0) not in (0, 1):
        yield "minItems is over 1"
    if "format" in schema and schema["format"] not in _ANTHROPIC_FORMATS:
        yield f"the format {schema['format']}"


def _openai(schema: Schema) -> Iterator[str]:
    yield from (f"the keyword {key}" for key in schema.keys() - _OPENAI_KEYWORDS)
    yield from _strict(schema)


def _strict(schema: Schema) -> Iterator[str]:
    """Objects are closed and require all that they have, lists say of what, and every schema has a type."""
    if "$ref" in schema and schema.keys() - {"$ref"}:
        yield "a reference with siblings"
    if not schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        yield "a schema without a type"
    if _is_object(schema):
        if schema.get("additionalProperties") is not False:
            yield "an object that allows other properties"
        if sorted(schema.get("required", [])) != sorted(schema.get("properties", {})):
            yield "an object that does not require all its properties"
    if schema.get("type") == "array" and "items" not in schema:
        yield "a list without items"
    if "default" in schema and schema["default"] is None:
        yield "a default of null"


def _google(schema: Schema) -> Iterator[str]:
    yield from (f"the keyword {key}" for key in schema.keys() - _GOOGLE_KEYWORDS)


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)
