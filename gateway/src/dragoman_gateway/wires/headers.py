"""Which headers pass between a client and a provider of the same wire: the lists of headers.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Self

_BETAS = "anthropic-beta"
_DEFAULTS = {"messages": {"anthropic-version": "2023-06-01"}}
"""What a client has to send to the provider itself, and many leave out here."""


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """The rules of one wire."""

    request: tuple[str, ...]
    reply: tuple[str, ...]
    betas: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, wire: str) -> Self:
        """Return the rules of a wire by its name."""
        table = tomllib.loads(files("dragoman_gateway.wires").joinpath("headers.toml").read_text("utf-8"))[wire]
        return cls(
            tuple(table["request"]), tuple(table["reply"]), tuple(table.get("betas", ())), _DEFAULTS.get(wire, {})
        )

    def to_provider(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a client that go to the provider."""
        passed = {**self.defaults, **{name: headers[name] for name in self.request if name in headers}}
        if _BETAS in passed:
            betas = _known(passed[_BETAS], self.betas)
            if betas:
                passed[_BETAS] = betas
            else:
                del passed[_BETAS]
        return passed

    def to_client(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers of a provider's reply that go to the client."""
        return [
            (name.encode(), value.encode())
            for name, value in headers.items()
            if _matches(name, self.reply) and value.isascii()
        ]


@lru_cache(maxsize=256)
def _known(values: str, patterns: tuple[str, ...]) -> str:
    """Return the values of a list header that match a pattern."""
    return ",".join(value for each in values.split(",") if _matches(value := each.strip(), patterns))


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
