"""Reads the tables of this package."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def load_table(path: str) -> Mapping[str, Any]:
    """Return a table by its path, such as ``wires/headers.toml``."""
    return tomllib.loads(files("dragoman_gateway").joinpath(path).read_text("utf-8"))
