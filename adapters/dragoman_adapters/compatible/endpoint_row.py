"""The fields of an endpoint's table; see endpoints.toml."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, deep_merge
from dragoman.canonical.blocks import FrozenModel
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.dual_api import Api

Table = dict[str, Any]

_DEFAULTS_TABLE = "*"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ModelRow(BaseModel):
    """A row of models: the globs that match them, the names to list, and their capabilities."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    match: str | tuple[str, ...]
    listed: tuple[str, ...] = ()


class EndpointRow(FrozenModel):
    """One endpoint. ``default`` and ``model`` are as in a models.toml."""

    base_url: str
    base_url_variable: str | None = None
    key_variables: tuple[str, ...] = ()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    key_required: bool = True
    priced_hosts: str | None = None
    token_variables: tuple[str, ...] = ()
    credentials: Literal["aws", "google", "azure"] | None = None
    scope: str = ""
    apis: tuple[Literal[Api, "completions"], ...] = Field(default=("chat",), min_length=1)
    """``completions``, text completions, is for a server that has neither of the others."""
    families: Literal["open", "openai"] = "open"
    vendor_prefix: str = ""
    """What the endpoint's names have before those of the families, as a regular expression. Its own rows alone say what
    it serves."""
    telemetry_name: str = ""
    dialect: Dialect = Field(default_factory=Dialect)
    default: Table = Field(default_factory=dict)
    model: tuple[ModelRow, ...] = ()

    @field_validator("apis")
    @classmethod
    def _completions_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "completions" in value and len(value) > 1:
            raise ValueError("a server with another API has no use for completions")
        return value

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(**{name: value for name, value in self if name in Endpoint.__dataclass_fields__})

    @property
    def models(self) -> list[Table]:
        """The rows of models, as in a models.toml."""
        return [row.model_dump() for row in self.model]


def parse_row(name: str, table: Mapping[str, Any], origin: str) -> EndpointRow:
    """Parse a table. ``origin`` is the file or the call that it comes from.

    Raises ConfigurationError with the origin and the field.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{origin}: {name!r} is not a provider name")
    try:
        row = EndpointRow.model_validate(table)
    except ValidationError as error:
        raise ConfigurationError(_error_message(origin, name, error)) from None
    _check_capabilities(name, row, origin)
    return row


def _check_capabilities(name: str, row: EndpointRow, origin: str) -> None:
    """Raise ConfigurationError if capabilities are invalid, which would otherwise show when a model is used."""
    layers = {"default": row.default}
    layers |= {f"model.{index}": _capability_fields(models) for index, models in enumerate(row.models)}
    for section, capabilities in layers.items():
        try:
            AdapterCapabilities.model_validate(capabilities)
        except ValidationError as error:
            raise ConfigurationError(_error_message(origin, f"{name}.{section}", error)) from None


def _capability_fields(models: Table) -> Table:
    return {key: value for key, value in models.items() if key not in ("match", "listed")}


def _error_message(origin: str, section: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join([section, *map(str, first["loc"])])
    return f"{origin}: {field}: {first['msg']}"


def read_tables(path: Path) -> dict[str, Table]:
    """Return the tables of a file. Raises ConfigurationError if the file is invalid."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    for name, table in found.items():
        if not isinstance(table, dict):
            raise ConfigurationError(f"{path}: {name}: a file of endpoints has one table for each endpoint")
    return found


@cache
def built_in_tables() -> dict[str, Table]:
    """Return the tables of endpoints.toml, without the one with the defaults."""
    return {name: table for name, table in _read_built_in().items() if name != _DEFAULTS_TABLE}


@cache
def _read_built_in() -> dict[str, Table]:
    return tomllib.loads(files("dragoman_adapters.compatible").joinpath("endpoints.toml").read_text(encoding="utf-8"))


def resolve_table(name: str, tables: Mapping[str, Table], origin: str) -> Table:
    """Return a table with the fields of the tables that it is like, and with the defaults.

    Raises ConfigurationError if there is no such table.
    """
    table = dict(tables[name])
    seen = {name}
    while (like := table.pop("like", None)) is not None:
        if not isinstance(like, str) or like in seen or like not in tables:
            raise ConfigurationError(f"{origin}: {name}.like: {like!r} is not another endpoint")
        seen.add(like)
        table = deep_merge({key: value for key, value in tables[like].items() if key != "telemetry_name"}, table)
    return deep_merge(_read_built_in()[_DEFAULTS_TABLE], table)
