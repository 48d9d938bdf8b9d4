"""A router's configuration, as TOML or as JSON: money is read exactly, and every fault is named at once."""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic import Field, ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import Frozen
from dragoman.canonical.guard import Text
from dragoman.routing.rules import Rule


class Configuration(Frozen):
    """What a file may say."""

    rule: tuple[Rule, ...] = ()
    aliases: dict[Text, Text] = Field(default_factory=dict)
    workspace_default: Text | None = None
    global_default: Text | None = None
    min_confidence: Decimal = Field(default=Decimal("0.5"), ge=0, le=1)
    mentions: bool = True


def read_configuration(text: str) -> dict[str, Any]:
    """The arguments of a Router, from TOML. Raises ConfigurationError."""
    try:
        return read_policy(tomllib.loads(text, parse_float=Decimal))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the routing configuration is no TOML: {error}") from None


def read_policy(data: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a Router, from what `write_policy` made or a file holds. Raises ConfigurationError."""
    try:
        found = Configuration.model_validate(dict(data))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise ConfigurationError("the routing configuration is not valid:\n  " + "\n  ".join(faults)) from None
    return {
        "rules": found.rule,
        "aliases": found.aliases,
        "workspace_default": found.workspace_default,
        "global_default": found.global_default,
        "min_confidence": float(found.min_confidence),
        "mentions": found.mentions,
    }


def write_policy(configuration: Configuration) -> dict[str, Any]:
    """The configuration as JSON takes it, without what is not set."""
    return configuration.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
