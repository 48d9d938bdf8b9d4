"""The wires of clients, and what the gateway knows about each: its address, its adapter, its keep-alive in a stream,
the headers that pass, and the tokens that clients write before their prompt."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from dragoman import Adapter, get_adapter
from dragoman.errors import InvalidRequestError, UnknownProviderError
from dragoman_gateway.toml import load_table

_BETAS = "anthropic-beta"
_UNKNOWN = "unknown"
_CLOSED = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True, config=_CLOSED)
class HeaderRules:
    """The rules of one wire."""

    request: tuple[str, ...]
    reply: tuple[str, ...]
    known_betas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Globs of the betas whose price, ids and content are known here."""
    unknown_betas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Globs of other betas, with what is unknown about them."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Headers that a client must send to the provider itself, and that many leave out here."""

    def to_provider(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a client that go to the provider."""
        return {**self.defaults, **{name: headers[name] for name in self.request if name in headers}}

    def check_betas(self, headers: Mapping[str, str]) -> None:
        """Raise InvalidRequestError for a beta that is not fully known: the gateway could not count or judge it."""
        for beta in map(str.strip, headers.get(_BETAS, "").split(",") if _BETAS in self.request else ()):
            if beta and not matches(beta, tuple(self.known_betas)):
                unknown = (each["unknown"] for glob, each in self.unknown_betas.items() if fnmatchcase(beta, glob))
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


@dataclass(frozen=True, slots=True, config=_CLOSED)
class Wire:
    """One wire that clients speak. ``provider`` names the adapter that reads its requests and writes its replies:
    requests to that provider are passed on as bytes."""

    name: str
    provider: str
    path: str
    adapter: Callable[[str], Adapter]
    """Returns the adapter that answers as the model of that name."""
    ping: bytes
    """What a stream sends in silence; all known clients accept it."""
    request_id_header: bytes
    headers: HeaderRules
    client_tokens: tuple[re.Pattern[str], ...] = ()
    """What clients write before their prompt, and no model needs."""
    error_types: Mapping[int, str] = field(default_factory=dict)
    """The types of errors by status, for statuses without a provider's error."""
    asks_for_usage: bool = False
    """Whether a stream has its counts only if the request asks for them."""
    first_ping: bytes = b": keep-alive\n\n"
    """What a stream sends in silence before its first event."""
    media_type: bytes = b"text/event-stream; charset=utf-8"
    """The content type of a stream."""
    event_ends: tuple[bytes, ...] = (b"\n\n", b"\r\n\r\n")
    """The bytes between two events of a stream."""
    untyped_bodies: bool = False
    """Whether clients leave out the content type, because the provider's own server reads none."""
    announces_tokens: bool = False
    """Whether the start of a stream has the tokens of the prompt, which most providers know at its end only."""

    signs_thinking: bool = False
    """Whether providers of the wire refuse thinking without a signature, as a stream that was cut leaves it."""

    stores_state: bool = False
    """Whether some state of other providers has no place in the wire's replies, so that the gateway keeps it."""

    renames_fields: bool = False
    """Whether some models take a field of the wire by another name alone."""

    server_state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields that continue from state at a provider of this wire, with the details of the refusal if another provider
    answers."""


@lru_cache(256)
def _adapter(provider: str, model: str) -> Adapter:
    """Return the adapter of a model. A name that cannot be one is not repeated."""
    try:
        return get_adapter(f"{provider}:{model or _UNKNOWN}")
    except UnknownProviderError:
        return get_adapter(f"{provider}:{_UNKNOWN}")


ALL_WIRES = tuple(
    Wire(
        name=name,
        adapter=partial(_adapter, facts["provider"]),
        headers=HeaderRules(**load_table("wires/headers.toml")[name]),
        client_tokens=load_table("wires/client_tokens.toml")[name]["patterns"],
        **facts,
    )
    for name, facts in load_table("wires/wires.toml").items()
)
"""All wires, including those whose addresses have more than one purpose."""
MESSAGES, CHAT, RESPONSES, GOOGLE, OLLAMA = ALL_WIRES
WIRES = (MESSAGES, CHAT, RESPONSES)
GOOGLE_ARRAY = replace(GOOGLE, media_type=b"application/json")
"""A stream without ``alt=sse``. White space is allowed between the elements of an array."""


def wire_of(headers: Mapping[str, str], default: Wire | None = None) -> Wire:
    """Return the wire of a request whose address does not show it: clients of Messages send a version, those of Google
    a key in a header of its own."""
    if "x-goog-api-key" in headers:
        return GOOGLE
    return MESSAGES if "anthropic-version" in headers else default or CHAT


def wire_of_path(path: str, headers: Mapping[str, str]) -> Wire:
    """Return the wire of a request by its address, else by its headers."""
    if path.startswith("/api/"):
        return OLLAMA
    if "/models/" in path and ":" in path:
        return GOOGLE
    return next((wire for wire in WIRES if path.startswith(wire.path)), None) or wire_of(headers)
