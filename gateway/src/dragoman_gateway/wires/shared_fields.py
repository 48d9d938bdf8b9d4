"""The fields of shared_fields.toml."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any


def shared_fields(wire: str, provider: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's request that go to a provider of another wire as they are."""
    names = _table().get(wire, {}).get(provider, ())
    return {name: fields[name] for name in names if fields.get(name) is not None}


@cache
def _table() -> Mapping[str, Mapping[str, Sequence[str]]]:
    return tomllib.loads(files("dragoman_gateway.wires").joinpath("shared_fields.toml").read_text("utf-8"))
