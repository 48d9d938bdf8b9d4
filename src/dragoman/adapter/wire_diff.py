"""The difference between a native object and its encoding by our own encoder, and a body merged with a caller's fields.

An adapter that decodes a native object encodes the result again and keeps the difference in provider_raw. When the
message goes back to the same provider, the difference is applied to the encoding. So the round trip is exact,
unknown fields included, and the canonical fields stay the only source of the content.
"""

from collections.abc import Callable, Mapping
from typing import Any

ADDED_LISTS = frozenset({"tools", "mcp_servers"})
"""Lists to which the caller's items are added."""
_SCHEMAS = frozenset({"schema", "parameters", "responseSchema", "responseJsonSchema"})
"""Fields that hold a JSON Schema: half of one and half of another are not a schema."""

_MISSING = object()

Path = tuple[str, ...]


def diff_objects(native: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return ``{"set": fields to lay over, "drop": fields to leave out}``, or None if nothing differs."""
    changed: dict[str, Any] = {}
    for key, value in native.items():
        ours = encoded.get(key, _MISSING)
        if ours is not value and not is_same_json(ours, value):
            changed[key] = value
    found: dict[str, Any] = {"set": changed} if changed else {}
    if not encoded.keys() <= native.keys():
        found["drop"] = [key for key in encoded if key not in native]
    return found or None


def apply_diff(encoded: Mapping[str, Any], difference: Mapping[str, Any] | None) -> dict[str, Any]:
    """Apply a difference to the encoding."""
    if not difference:
        return dict(encoded)
    dropped = difference.get("drop", ())
    kept = {key: value for key, value in encoded.items() if key not in dropped}
    kept.update(difference.get("set", {}))
    return kept


def merge_fields(
    body: Mapping[str, Any], extra: Mapping[str, Any], on_override: Callable[[Path, Any], None], path: Path = ()
) -> dict[str, Any]:
    """Merge the caller's fields into a body, at any depth; ``...`` removes a field.

    The caller's value wins: ``on_override`` receives the path of each other value that it replaces, and the caller's
    value. Items of ``tools`` are added to ours. A null does not replace an object or a list.
    """
    merged = dict(body)
    for name, value in extra.items():
        current, here = merged.get(name, ...), (*path, name)
        if value is None and isinstance(current, Mapping | list):
            continue
        if are_merged(name, current, value):
            merged[name] = merge_fields(current, value, on_override, here)
            continue
        if name in ADDED_LISTS and isinstance(current, list) and isinstance(value, list):
            merged[name] = [*current, *value]
            continue
        if current is not ... and not is_same_json(current, value):
            on_override(here, value)
        merged[name] = merge_fields({}, value, on_override, here) if isinstance(value, Mapping) else value
    return {name: value for name, value in merged.items() if value is not ...}


def are_merged(name: str, ours: Any, theirs: Any) -> bool:
    """Whether two values of a field are merged field by field: two objects of one kind that are not schemas."""
    if name in _SCHEMAS or not (isinstance(ours, Mapping) and isinstance(theirs, Mapping)):
        return False
    return "type" not in ours or "type" not in theirs or bool(ours["type"] == theirs["type"])


def is_same_json(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same on a wire."""
    # True == 1 and 1 == 1.0 in Python, but not on a wire.
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        if ours.keys() != theirs.keys():
            return False
        for key, value in ours.items():
            other = theirs[key]
            if value is not other and not is_same_json(value, other):  # texts of a copy are the same objects
                return False
        return True
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(is_same_json, ours, theirs))
    return bool(ours == theirs)
