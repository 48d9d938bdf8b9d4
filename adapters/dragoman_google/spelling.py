"""camelCase and snake_case: Google reads its fields in either, and clients write both, sometimes in one object.

Adapters read the camelCase form. What was written otherwise is remembered, so that it goes back as it came.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

_VERBATIM = frozenset({"args", "response"})
"""Fields whose values are a tool's own: their names are nobody's spelling."""

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def camel_name(name: str) -> str:
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def camel(value: Any) -> tuple[Any, list[str]]:
    """The value with camelCase names, and the names that were spelled otherwise."""
    found: dict[str, None] = {}
    return _camel(value, found), list(found)


def respelled(value: Any, names: Iterable[str]) -> Any:
    """The way back: the value with those names spelled as they were."""
    spelling = {camel_name(name): name for name in names}
    return _renamed(value, spelling) if spelling else value


def either(native: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """The field of that camelCase name in whichever spelling is there, and its value; None where it is not."""
    if native.get(name) is not None:
        return name, native[name]
    for key, value in native.items():
        if "_" in key and value is not None and camel_name(key) == name:
            return key, value
    return name, None


def _camel(value: Any, found: dict[str, None]) -> Any:
    if isinstance(value, list):
        return [_camel(item, found) for item in value]
    if not isinstance(value, dict):
        return value
    renamed: dict[str, Any] = {}
    for key, item in value.items():
        name = key
        if "_" in key and (name := camel_name(key)) != key:
            found[key] = None
        renamed[name] = item if name in _VERBATIM else _camel(item, found)
    return renamed


def _renamed(value: Any, spelling: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_renamed(item, spelling) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        spelling.get(key, key): item if key in _VERBATIM else _renamed(item, spelling) for key, item in value.items()
    }
