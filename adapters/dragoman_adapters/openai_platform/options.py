"""What the options of both of OpenAI's APIs have in common: service tiers, and JSON Schemas in strict mode
(docs/reference/wires/openai-responses.md).

Only strict mode makes a schema binding. It requires objects to list every property as required and to allow no other.
A value that is valid for the stricter schema is valid for the original one.
"""

import re
from collections.abc import Mapping
from typing import Any

from dragoman.adapter.requests.request_builder import RequestBuilder

_OWN = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
SERVICE_TIERS: dict[str, str | bool] = {"auto": "auto", "standard": "default", **{word: word for word in _OWN}}

MAX_USER_LENGTH = 64
"""The characters that ``safety_identifier`` may have (https://platform.openai.com/docs/api-reference/responses)."""


_SCHEMA_MAPS = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "allOf")
_UNSUPPORTED = {"oneOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas"}
_KINDS = {"type", "anyOf", "$ref", "enum", "const"}
"""Keywords of which a schema needs one: strict mode has no value of any type."""
_ILLEGAL_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME_LENGTH = 64
_ANNOTATIONS = {"title", "description", "default", "examples"}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the strict form of a schema; None if it has none, such as an object with free keys."""
    if schema.get("type") != "object":
        return None
    try:
        return _make_strict(dict(schema))
    except ValueError:
        return None


def encode_schema(request: RequestBuilder, name: str | None = None) -> dict[str, Any]:
    """Return the output schema under a name, by default that of its title. The provider enforces it only in its strict
    form; a schema without one is sent as a hint."""
    schema = request.fit_output_schema()
    strict = strict_schema(schema)
    if strict is None:
        request.record_option_loss("output_schema", "the schema has no strict form: it is sent as a hint")
    name = name or _ILLEGAL_NAME_CHARACTERS.sub("_", str(schema.get("title") or "answer"))[:_MAX_NAME_LENGTH]
    return {"name": name, "schema": schema if strict is None else strict, "strict": strict is not None}


def _make_strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict) or not _KINDS & schema.keys() or _UNSUPPORTED & schema.keys():
        raise ValueError("a schema without a strict form")
    if "$ref" in schema:
        # In strict mode a reference has no siblings; descriptions may be dropped.
        if schema.keys() - _ANNOTATIONS != {"$ref"}:
            raise ValueError("a schema without a strict form")
        return {"$ref": schema["$ref"]}
    strict = dict(schema)
    kind = schema.get("type")
    if kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind):
        properties = schema.get("properties")
        if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
            raise ValueError("a schema without a strict form")
        strict["additionalProperties"] = False
        strict["required"] = list(properties)
    for key in _SCHEMA_MAPS & schema.keys():
        strict[key] = {name: _make_strict(inner) for name, inner in schema[key].items()}
    for key in _SCHEMA_LISTS & schema.keys():
        strict[key] = [_make_strict(inner) for inner in schema[key]]
    if "items" in schema:
        strict["items"] = _make_strict(schema["items"])
    return strict
