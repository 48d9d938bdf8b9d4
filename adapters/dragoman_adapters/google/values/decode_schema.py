"""Converts Google's Schema objects, a subset of OpenAPI 3.0, to JSON Schema, which all other providers read."""

from typing import Any

from dragoman_adapters.google.values.spelling import camel_case_name

_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")
"""The types by their numbers in Google's protocol buffers."""
_COUNT_KEYWORDS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_SINGLE_SCHEMA_KEYWORDS = frozenset({"items", "additionalProperties"})
_SCHEMA_LIST_KEYWORDS = frozenset({"anyOf", "prefixItems"})
_SCHEMA_MAP_KEYWORDS = frozenset({"properties", "defs", "$defs"})
_GOOGLE_ONLY_KEYWORDS = frozenset({"propertyOrdering", "example"})


def decode_schema(native: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with lower-case types, null as a type if it is nullable, and counts as numbers."""
    found: dict[str, Any] = {}
    for key, value in native.items():
        name = camel_case_name(key)
        if name == "type":
            found["type"] = _decode_type(value)
        elif name in _SINGLE_SCHEMA_KEYWORDS and isinstance(value, dict):
            found[name] = decode_schema(value)
        elif name in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            found[name] = [decode_schema(item) if isinstance(item, dict) else item for item in value]
        elif name in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            found[name] = {
                each: decode_schema(item) if isinstance(item, dict) else item for each, item in value.items()
            }
        elif name in _COUNT_KEYWORDS:
            found[name] = int(value) if isinstance(value, str) and value.isdigit() else value
        elif name != "nullable" and name not in _GOOGLE_ONLY_KEYWORDS:
            found[name] = value
    if native.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _decode_type(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < len(_TYPES):
        return _TYPES[value]
    if isinstance(value, list):
        return [_decode_type(item) for item in value]
    return value.lower() if isinstance(value, str) else value
