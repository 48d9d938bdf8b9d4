"""A router's configuration as TOML or JSON. Money is read exactly, and all faults are reported at once."""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import Field, ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Text
from dragoman.routing.replies import ReplyFault
from dragoman.routing.rules import Rule


class RouterConfiguration(FrozenModel):
    """The fields of a configuration file."""

    rule: tuple[Rule, ...] = ()
    aliases: dict[Text, Text] = Field(default_factory=dict)
    workspace_default: Text | None = None
    global_default: Text | None = None
    min_confidence: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)
    mentions: bool = False
    fall_back_on: tuple[ReplyFault, ...] = ()


def read_toml(text: str) -> dict[str, Any]:
    """Return the arguments of a Router, from TOML. Raises ConfigurationError."""
    try:
        return read_mapping(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the routing configuration is not valid TOML: {error}") from None


def read_mapping(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a Router, from `dump_configuration` or a file. Raises ConfigurationError."""
    try:
        configuration = RouterConfiguration.model_validate(dict(data))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError("the routing configuration is not valid:\n  " + "\n  ".join(faults)) from None
    return {
        "rules": configuration.rule,
        "aliases": configuration.aliases,
        "workspace_default": configuration.workspace_default,
        "global_default": configuration.global_default,
        "min_confidence": float(configuration.min_confidence),
        "mentions": configuration.mentions,
        "fall_back_on": configuration.fall_back_on,
    }


def dump_configuration(configuration: RouterConfiguration) -> dict[str, Any]:
    """Return the configuration as JSON values, without defaults."""
    return configuration.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
