"""JSON Schemas as OpenAI's strict mode wants them (wire reference 3.3).

Strict mode is what makes a schema binding, and it takes only objects that list every property as required and
allow no other. Whatever obeys the stricter schema obeys the one that was asked for.
"""

from collections.abc import Mapping
from typing import Any

_NESTED = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema made strict, or None where it has no strict form: free-form objects, and schemas that are no object."""
    return _strict(dict(schema)) if schema.get("type") == "object" else None


def _strict(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    strict = dict(schema)
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties")
        if not isinstance(properties, dict) or schema.get("additionalProperties", False) is not False:
            return None
        strict["additionalProperties"] = False
        strict["required"] = list(properties)
    for key in _NESTED:
        if key in schema:
            strict[key] = {name: _strict(inner) for name, inner in schema[key].items()}
            if None in strict[key].values():
                return None
    for key in _LISTS:
        if key in schema:
            strict[key] = [_strict(inner) for inner in schema[key]]
            if None in strict[key]:
                return None
    if "items" in schema and (items := _strict(schema["items"])) is not None:
        strict["items"] = items
    elif "items" in schema:
        return None
    return strict
