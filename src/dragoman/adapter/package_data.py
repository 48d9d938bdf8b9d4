"""Tables in the packages of adapters."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_toml(package: str, name: str) -> dict[str, Any]:
    """Return the table in a file of a package. It is read once; nobody changes it."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
