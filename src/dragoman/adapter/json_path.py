"""Dotted paths of values in JSON objects, such as ``reasoning.effort``."""

from functools import cache
from typing import Any

Path = str
"""The dotted path of a value in a JSON object."""


@cache
def split_path(path: Path) -> tuple[str, ...]:
    """Return the names on a path."""
    return tuple(path.split("."))


def lookup_path(native: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for name in split_path(path):
        if not isinstance(native, dict):
            return None
        native = native.get(name)
    return native


def assign_path(body: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path and create the objects on the way."""
    *outer, name = split_path(path)
    for step in outer:
        body = body.setdefault(step, {})
    body[name] = value
