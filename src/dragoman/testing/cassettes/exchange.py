"""The contents of a cassette: requests and their responses, and whom a request addresses by its URL.

A repr shows the method or status and the size, never the content. The table of URLs is ``wires.toml``.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.registry import get_adapter


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it is kept in a cassette. ``path`` has no host but includes the query. ``provider`` is None if
    unknown.

    ``host`` is set on a live request and never written.
    """

    method: str
    """The HTTP method, in upper case."""
    path: str
    body: bytes = b""
    """The bytes as they were sent, decompressed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that a cassette keeps; secrets are not among them."""
    provider: str | None = None
    host: str | None = None

    def __repr__(self) -> str:
        return f"RecordedRequest({self.method}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    """A response as it is kept in a cassette."""

    status: int
    """The HTTP status."""
    body: bytes = b""
    """The bytes as they arrived, decompressed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that a cassette keeps."""

    def __repr__(self) -> str:
        return f"RecordedResponse({self.status}, {len(self.body)} bytes)"


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response."""

    request: RecordedRequest
    """What was sent."""
    response: RecordedResponse
    """What came back."""


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


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("dragoman.testing.cassettes").joinpath("wires.toml").read_text(encoding="utf-8"))


@cache
def ignored_names() -> dict[str, frozenset[str]]:
    """Return the names that do not affect a request: arguments of the ``query``, and fields that are ``hints``, ``ids``
    or the caller's ``own``."""
    return {kind: frozenset(names) for kind, names in _table()["ignored"].items()}


def request_target(request: RecordedRequest) -> RequestTarget:
    """Return the target of a request. An unknown URL is an operation of its own."""
    return _parse_target(request.path, request.provider, request.host)


@cache
def _parse_target(target: str, provider: str | None, host: str | None) -> RequestTarget:
    path, _, query = target.partition("?")
    named = (provider,) if provider else _providers(host)
    kept = tuple(sorted((k, v) for k, v in parse_qsl(query, True) if k not in ignored_names()["query"]))
    for row in _table()["wires"]:
        if found := re.search(row["path"], path):
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


def parse_json(data: bytes) -> Any:
    """Return the JSON value of a body or an event, or None if it is not JSON."""
    try:
        return wirejson.loads(data) if data else None
    except MalformedReplyError:
        return None


@cache
def cached_adapter(provider: str, model: str) -> Adapter:
    """Return the adapter that reads requests and replies: the files of a run name few models."""
    return get_adapter(f"{provider}:{model}")
