"""The contents of a cassette: requests and their responses, and the provider that a request addresses by its URL.

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
    """A request as it is kept in a cassette."""

    method: str
    """The HTTP method, in upper case."""
    path: str
    """The path with the query, without the host."""
    body: bytes = b""
    """The bytes as they were sent, decompressed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers that a cassette keeps; secrets are not among them."""
    provider: str | None = None
    """The provider's name, or None if it is unknown."""
    host: str | None = None
    """The host of a live request; never written."""

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
    """The provider, operation and model that a URL names."""

    providers: tuple[str, ...]
    """All candidates; empty if the host is unknown."""
    operation: str
    wire_owner: str | None
    """The provider that defined this wire, such as openai-chat for every compatible host; None for an unknown URL."""
    model: str | None
    """The model, if the URL names it."""
    query: tuple[tuple[str, str], ...]
    """The arguments of the query that affect a request."""

    @property
    def reader(self) -> str | None:
        """The provider whose adapter reads the body: the only candidate, or else the owner of the wire."""
        if self.wire_owner is not None and len(self.providers) == 1:
            return self.providers[0]
        return self.wire_owner


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("dragoman.testing.cassettes").joinpath("wires.toml").read_text(encoding="utf-8"))


@cache
def ignored_names() -> dict[str, frozenset[str]]:
    """Return the names with a meaning of their own in a comparison, by kind: arguments of the ``query`` and fields that
    are ``hints``, which are left out; ``ids``, which may have other values; and the caller's ``own``, in whose data
    nothing is ignored."""
    return {kind: frozenset(names) for kind, names in _table()["ignored"].items()}


def request_target(request: RecordedRequest) -> RequestTarget:
    """Return the target of a request. An unknown URL is an operation of its own."""
    return _parse_target(request.path, request.provider, request.host)


@cache
def _parse_target(path_and_query: str, provider: str | None, host: str | None) -> RequestTarget:
    path, _, query = path_and_query.partition("?")
    providers = (provider,) if provider else _providers(host)
    arguments = parse_qsl(query, keep_blank_values=True)
    kept = tuple(sorted((name, value) for name, value in arguments if name not in ignored_names()["query"]))
    for row in _table()["wires"]:  # the first row that matches wins
        if found := re.search(row["path"], path):
            parts = found.groupdict()
            model = unquote(parts["model"]) if parts.get("model") else None
            return RequestTarget(providers, parts.get("operation") or row["operation"], row["reads"], model, kept)
    return RequestTarget(providers, path, None, None, kept)


def provider_of_uri(uri: str, path_and_query: str) -> str | None:
    """Return the provider of a full URL, or None if there are several candidates or none. ``path_and_query`` is its end
    as it is kept: without the caller's key."""
    providers = _providers(urlsplit(uri).hostname)
    if len(providers) < 2:
        return providers[0] if providers else None
    wire_owner = _parse_target(path_and_query, None, None).wire_owner
    return wire_owner if wire_owner in providers else None


def _providers(host: str | None) -> tuple[str, ...]:
    """Return who may be reached under a host: one in the table, a subdomain, or one with a prefix such as
    ``us-central1-``."""
    hosts: dict[str, list[str]] = _table()["hosts"] if host else {}
    for known, names in hosts.items():
        if f".{host}".endswith((f".{known}", f"-{known}")):
            return tuple(names)
    return ()


def parse_json(data: bytes) -> Any:
    """Return the JSON value of a body or an event, or None if it is not JSON."""
    try:
        return wirejson.loads(data) if data else None
    except MalformedReplyError:
        return None


@cache
def cached_adapter(provider: str, model: str) -> Adapter:
    """Return the adapter that reads requests and replies. The cache has no limit: the cassettes of a run name few
    models."""
    return get_adapter(f"{provider}:{model}")
