"""Reads the tables of this package, and describes those of the settings."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel, ConfigDict


@cache
def load_table(path: str) -> Mapping[str, Any]:
    """Return a table by its path, such as ``wires/headers.toml``."""
    return tomllib.loads(files("dragoman_gateway").joinpath(path).read_text("utf-8"))


class SettingsTable(BaseModel):
    """A table of dragoman.toml, in which an unknown setting is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)
