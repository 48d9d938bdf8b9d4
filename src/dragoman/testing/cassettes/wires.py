"""Finds the provider and the operation of a request by its URL. The table is ``wires.toml``."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dragoman.testing.cassettes.exchange import RecordedRequest


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The provider, operation and model that a URL names.

    ``providers`` has all candidates and is empty if the host is unknown. ``reads`` is the provider whose adapter
    parses the body, or None.
    """

    providers: tuple[str, ...]
    operation: str
    reads: str | None
    model: str | None
    query: tuple[tuple[str, str], ...]

    @property
    def reader(self) -> str | None:
        """The adapter that reads the body: the provider's own if there is exactly one candidate."""
        return self.providers[0] if self.reads and len(self.providers) == 1 else self.reads


@dataclass(frozen=True, slots=True)
class IgnoredNames:
    """Names of fields and arguments that do not affect the request."""

    query: frozenset[str]
    hints: frozenset[str]
    ids: frozenset[str]
    own: frozenset[str]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("dragoman.testing.cassettes").joinpath("wires.toml").read_text(encoding="utf-8"))


@cache
def _wire_patterns() -> list[tuple[re.Pattern[str], dict[str, str]]]:
    return [(re.compile(row["path"]), row) for row in _table()["wires"]]


@cache
def ignored_names() -> IgnoredNames:
    return IgnoredNames(**{name: frozenset(values) for name, values in _table()["ignored"].items()})


def request_target(request: RecordedRequest) -> RequestTarget:
    """Return the target of a request. An unknown URL is an operation of its own."""
    return _parse_target(request.path, request.provider, request.host)


@cache
def _parse_target(target: str, provider: str | None, host: str | None) -> RequestTarget:
    path, _, query = target.partition("?")
    named = (provider,) if provider else _providers(host)
    kept = tuple(sorted((k, v) for k, v in parse_qsl(query, True) if k not in ignored_names().query))
    for pattern, row in _wire_patterns():
        if found := pattern.search(path):
            parts = found.groupdict()
            model = unquote(parts["model"]) if parts.get("model") else None
            return RequestTarget(named, parts.get("operation") or row["operation"], row["reads"], model, kept)
    return RequestTarget(named, path, None, None, kept)


def provider_of_uri(uri: str, target: str) -> str | None:
    """Return the provider of a full URL, or None if there are several candidates or none."""
    named = _providers(urlsplit(uri).hostname)
    if len(named) < 2:
        return named[0] if named else None
    reads = _parse_target(target, None, None).reads
    return reads if reads in named else None


def _providers(host: str | None) -> tuple[str, ...]:
    if not host:
        return ()
    hosts: dict[str, list[str]] = _table()["hosts"]
    return next(
        (tuple(names) for known, names in hosts.items() if ("." + host).endswith(("." + known, "-" + known))), ()
    )
