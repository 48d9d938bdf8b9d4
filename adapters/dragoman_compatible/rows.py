"""What a table of an endpoint may say; see endpoints.toml."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.adapter.capabilities import AdapterCapabilities, merged
from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import Frozen
from dragoman_openai.both import Api
from dragoman_openai.chat.dialect import Dialect

Table = dict[str, Any]

_FOR_ALL = "*"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ModelRow(BaseModel):
    """The models that it means, the names to show of them, and capabilities besides."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    match: str | tuple[str, ...]
    listed: tuple[str, ...] = ()


class EndpointRow(Frozen):
    """One endpoint. ``default`` and ``model`` are as in a models.toml."""

    base_url: str
    base_url_variable: str | None = None
    key_variables: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_required: bool = True
    apis: tuple[Api, ...] = Field(default=("chat",), min_length=1)
    families: Literal["open", "openai"] = "open"
    dialect: Dialect = Field(default_factory=Dialect)
    default: Table = Field(default_factory=dict)
    model: tuple[ModelRow, ...] = ()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            base_url=self.base_url,
            key_variables=self.key_variables,
            key_header=self.key_header,
            key_prefix=self.key_prefix,
            key_required=self.key_required,
            base_url_variable=self.base_url_variable,
        )

    @property
    def models(self) -> list[Table]:
        """The rows of models as they are in a models.toml."""
        return [row.model_dump() for row in self.model]


def read(name: str, table: Mapping[str, Any], place: str) -> EndpointRow:
    """The row that a table describes; ``place`` is the file or the call that it stands in.

    Raises ConfigurationError with the place and the field.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{place}: {name!r} is no name of a provider")
    try:
        row = EndpointRow.model_validate(table)
    except ValidationError as error:
        raise ConfigurationError(_said(place, name, error)) from None
    _check_capabilities(name, row, place)
    return row


def _check_capabilities(name: str, row: EndpointRow, place: str) -> None:
    """Capabilities are merged and read when a model is asked for: what is wrong with them shows here instead."""
    layers = {"default": row.default}
    layers |= {f"model.{index}": _abilities(models) for index, models in enumerate(row.models)}
    for where, abilities in layers.items():
        try:
            AdapterCapabilities.model_validate(abilities)
        except ValidationError as error:
            raise ConfigurationError(_said(place, f"{name}.{where}", error)) from None


def _abilities(models: Table) -> Table:
    return {key: value for key, value in models.items() if key not in ("match", "listed")}


def _said(place: str, where: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join([where, *map(str, first["loc"])])
    return f"{place}: {field}: {first['msg']}"


def tables_of(path: Path) -> dict[str, Table]:
    """The tables of a file, as they stand there. Raises ConfigurationError where it is no such file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"{path}: {name}: a file of endpoints has one table an endpoint")
    return found


@cache
def built_in() -> dict[str, Table]:
    """The tables of endpoints.toml, without the one for all."""
    return {name: table for name, table in _all().items() if name != _FOR_ALL}


@cache
def _all() -> dict[str, Table]:
    return tomllib.loads(files("dragoman_compatible").joinpath("endpoints.toml").read_text(encoding="utf-8"))


def whole(name: str, tables: Mapping[str, Table], place: str) -> Table:
    """A table with the fields of those that it is like, and those for all.

    Raises ConfigurationError where there is no such table.
    """
    table = dict(tables[name])
    seen = {name}
    while (like := table.pop("like", None)) is not None:
        if not isinstance(like, str) or like in seen or like not in tables:
            raise ConfigurationError(f"{place}: {name}.like: {like!r} is no other endpoint")
        seen.add(like)
        table = merged(tables[like], table)
    return merged(_all()[_FOR_ALL], table)
