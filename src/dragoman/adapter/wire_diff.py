"""The difference between a native object and its encoding by our own encoder.

An adapter that decodes a native object encodes the result again and keeps the difference in provider_raw. When the
message goes back to the same provider, the difference is applied to the encoding. So the round trip is exact,
unknown fields included, and the canonical fields stay the only source of the content.
"""

from collections.abc import Mapping
from typing import Any


def diff_objects(native: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return ``{"set": fields to lay over, "drop": fields to leave out}``, or None if nothing differs."""
    missing = object()
    changed = {key: value for key, value in native.items() if not _is_same_json(encoded.get(key, missing), value)}
    extra_keys = [key for key in encoded if key not in native]
    found: dict[str, Any] = {}
    if changed:
        found["set"] = changed
    if extra_keys:
        found["drop"] = extra_keys
    return found or None


def apply_diff(encoded: Mapping[str, Any], difference: Mapping[str, Any] | None) -> dict[str, Any]:
    """Apply a difference to the encoding."""
    if not difference:
        return dict(encoded)
    dropped = difference.get("drop", ())
    kept = {key: value for key, value in encoded.items() if key not in dropped}
    kept.update(difference.get("set", {}))
    return kept


def _is_same_json(ours: Any, theirs: Any) -> bool:
    # True == 1 and 1 == 1.0 in Python, but not on a wire.
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(_is_same_json(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(_is_same_json, ours, theirs))
    return bool(ours == theirs)
