"""The fields of shared_fields.toml and state_fields.toml."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman import Adapter


def shared_fields(wire: str, provider: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's request that go to a provider of another wire as they are."""
    names = _table("shared_fields.toml").get(wire, {}).get(provider, ())
    return {name: fields[name] for name in names if fields.get(name) is not None}


def state_fields(adapter: Adapter, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by which a provider of another wire stores nothing, and hands out its state; empty if the
    client wants the reply to be stored."""
    table = _table("state_fields.toml").get(adapter.provider)
    if table is None or fields.get("store") is True:
        return {}
    asked = {name: value for name, value in table.items() if name != _REASONING}
    return {**asked, **table[_REASONING]} if adapter.capabilities.supports_thinking else asked


_REASONING = "reasoning"
"""The table of the fields for models that reason."""


@cache
def _table(name: str) -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(files("dragoman_gateway.wires").joinpath(name).read_text("utf-8"))
