"""The fields of an endpoint's table; see endpoints.toml."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, deep_merge
from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import FrozenModel
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_platform.dual_api import Api

Table = dict[str, Any]

_BUILT_IN = ("dragoman_adapters.compatible", "endpoints.toml")
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
    section = name
    try:
        row = EndpointRow.model_validate(table)
        # Invalid capabilities would otherwise show when a model is used.
        section = f"{name}.default"
        AdapterCapabilities.model_validate(row.default)
        for index, model in enumerate(row.models):
            section = f"{name}.model.{index}"
            fields = {key: value for key, value in model.items() if key not in ("match", "listed")}
            AdapterCapabilities.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join([section, *map(str, first["loc"])])
        raise ConfigurationError(f"{origin}: {field}: {first['msg']}") from None
    return row


@cache
def built_in_tables() -> dict[str, Table]:
    """Return the tables of endpoints.toml, without the one with the defaults."""
    return {name: table for name, table in read_toml(*_BUILT_IN).items() if name != _DEFAULTS_TABLE}


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
    return deep_merge(read_toml(*_BUILT_IN)[_DEFAULTS_TABLE], table)
