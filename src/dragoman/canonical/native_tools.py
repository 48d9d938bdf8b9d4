"""Native blocks that are calls and results of tools that a provider runs, and the tools that they name."""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any


@lru_cache(maxsize=1024)
def is_native_tool(kind: str) -> bool:
    """Whether a native block of this kind is a call or a result."""
    return any(fnmatchcase(kind, pattern) for pattern in _table()["kinds"])


def native_tool_name(kind: str, data: Mapping[str, Any]) -> str:
    """Return the name in a native block, or else its kind without what says "call" or "result"."""
    table, fields = _table(), native_fields(kind, data)
    named = next((value for name in table["names"] if isinstance(value := fields.get(name), str) and value), None)
    ending = next((end for end in table["endings"] if kind.endswith(end)), "")
    return named or table["words"].get(kind) or kind.removesuffix(ending) or kind


def native_fields(kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a native block: some wires have them in an object with the name of the kind."""
    inner = data.get(kind)
    return inner if isinstance(inner, dict) else data


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("native_tools.toml").read_text(encoding="utf-8"))
