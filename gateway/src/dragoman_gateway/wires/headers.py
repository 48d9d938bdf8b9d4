"""Selects the headers that pass between a client and a provider of the same wire, by the lists of headers.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Self

from dragoman.errors import InvalidRequestError

_BETAS = "anthropic-beta"
_DEFAULTS = {"messages": {"anthropic-version": "2023-06-01"}}
"""Headers that a client must send to the provider itself, and that many leave out here."""


@dataclass(frozen=True, slots=True)
class HeaderRules:
    """The rules of one wire."""

    request: tuple[str, ...]
    reply: tuple[str, ...]
    known_betas: tuple[str, ...] = ()
    """Globs of the betas whose price, ids and content are known here."""
    unknown_betas: Mapping[str, str] = field(default_factory=dict)
    """Globs of other betas, with what is unknown about them."""
    defaults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, wire: str) -> Self:
        """Return the rules of a wire by its name."""
        table = tomllib.loads(files("dragoman_gateway.wires").joinpath("headers.toml").read_text("utf-8"))[wire]
        return cls(
            tuple(table["request"]),
            tuple(table["reply"]),
            tuple(table.get("known_betas", ())),
            {glob: each["unknown"] for glob, each in table.get("unknown_betas", {}).items()},
            _DEFAULTS.get(wire, {}),
        )

    def to_provider(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a client that go to the provider."""
        return {**self.defaults, **{name: headers[name] for name in self.request if name in headers}}

    def check_betas(self, headers: Mapping[str, str]) -> None:
        """Raise InvalidRequestError for a beta that is not fully known: the gateway could not count or judge it."""
        for beta in map(str.strip, headers.get(_BETAS, "").split(",") if _BETAS in self.request else ()):
            if beta and not matches(beta, self.known_betas):
                unknown = (what for glob, what in self.unknown_betas.items() if fnmatchcase(beta, glob))
                raise InvalidRequestError(
                    f"{_BETAS}: {beta!r:.120} is not allowed here, because this key has a budget or this gateway has a"
                    f" policy, and this is not known about it: {next(unknown, 'price, ids and content')}",
                    status=400,
                )

    def to_client(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        """Return the headers of a provider's reply that go to the client."""
        return [
            (name.encode(), value.encode())
            for name, value in headers.items()
            if matches(name, self.reply) and value.isascii()
        ]


@lru_cache(maxsize=4096)
def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the globs describes the name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
