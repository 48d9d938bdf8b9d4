"""Handles camelCase and snake_case. Google reads its fields in both, and clients write both, sometimes in one object.

Adapters read the camelCase form. Other spellings are noted, so that they go back unchanged.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_VERBATIM_FIELDS = frozenset({"args", "response"})
"""Fields whose values belong to a tool: the names in them are not changed."""

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel_case_name(name: str) -> str:
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def to_camel_case(native: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the object with camelCase names, and the names that were spelled differently."""
    found: dict[str, None] = {}
    return _camel_keys(native, found), list(found)


def camel_case_fields(native: Mapping[str, Any], without: Iterable[str] = ("candidates",)) -> dict[str, Any]:
    """Return an object's fields in camelCase, except those that hold parts."""
    return to_camel_case({key: value for key, value in native.items() if key not in without})[0]


def restore_spelling(native: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Restore the original spelling of those names."""
    spelling = {camel_case_name(name): name for name in names}
    renamed: dict[str, Any] = _rename_keys(native, spelling) if spelling else native
    return renamed


def find_field(native: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """Return the name of a field in the spelling that the object uses, and its value; None if it has no such field."""
    if native.get(name) is not None:
        return name, native[name]
    for key, value in native.items():
        if "_" in key and value is not None and camel_case_name(key) == name:
            return key, value
    return name, None


def _camel_keys(value: Any, found: dict[str, None]) -> Any:
    if isinstance(value, list):
        return [_camel_keys(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for key, item in value.items():
        name = key
        if "_" in key and (name := camel_case_name(key)) != key:
            found[key] = None
        is_nested = isinstance(item, (dict, list)) and name not in _VERBATIM_FIELDS
        renamed[name] = _camel_keys(item, found) if is_nested else item
    return renamed


def _rename_keys(value: Any, spelling: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename_keys(item, spelling) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        spelling.get(key, key): item if key in _VERBATIM_FIELDS else _rename_keys(item, spelling)
        for key, item in value.items()
    }
