"""Google's own Schema objects (a subset of OpenAPI 3.0) as JSON Schema, which is what every other provider reads."""

from typing import Any

from dragoman_google.spelling import camel_name

_TYPES = ("", "string", "number", "integer", "boolean", "array", "object", "null")
"""By their numbers in Google's protocol buffers."""
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_NESTED = frozenset({"items", "additionalProperties"})
_LISTED = frozenset({"anyOf", "prefixItems"})
_NAMED = frozenset({"properties", "defs", "$defs"})
_UNKNOWN_ELSEWHERE = frozenset({"propertyOrdering", "example"})


def json_schema(native: dict[str, Any]) -> dict[str, Any]:
    """The schema with lower-case types, null among the types where it is nullable, and counts as numbers."""
    found: dict[str, Any] = {}
    for key, value in native.items():
        name = camel_name(key)
        if name == "type":
            found["type"] = _type(value)
        elif name in _NESTED and isinstance(value, dict):
            found[name] = json_schema(value)
        elif name in _LISTED and isinstance(value, list):
            found[name] = [json_schema(item) if isinstance(item, dict) else item for item in value]
        elif name in _NAMED and isinstance(value, dict):
            found[name] = {each: json_schema(item) if isinstance(item, dict) else item for each, item in value.items()}
        elif name in _COUNTS:
            found[name] = int(value) if isinstance(value, str) and value.isdigit() else value
        elif name != "nullable" and name not in _UNKNOWN_ELSEWHERE:
            found[name] = value
    if native.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _type(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < len(_TYPES):
        return _TYPES[value]
    if isinstance(value, list):
        return [_type(item) for item in value]
    return value.lower() if isinstance(value, str) else value
