"""Which provider and which operation a request is for, told by its address; the table is ``cassette_wires.toml``."""

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
    """What an address says. ``providers`` are all that it may be, and none where the host's name is not known;
    ``reads`` is the provider whose adapter reads the body, None where there is none."""

    providers: tuple[str, ...]
    operation: str
    reads: str | None
    model: str | None
    query: tuple[tuple[str, str], ...]

    @property
    def reader(self) -> str | None:
        """The adapter that reads the body: the host's own, where it is certain who that is."""
        return self.providers[0] if self.reads and len(self.providers) == 1 else self.reads


@dataclass(frozen=True, slots=True)
class IgnoredNames:
    """Names of what says nothing about what is asked."""

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
    """What the address of a request says. An address of no known form is an operation of its own."""
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
    """The one provider that a whole address belongs to, None where it may be several or anybody's."""
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
