"""What the gateway knows about the wire of a client: its address, its adapter, its keep-alive in a stream, the headers
that pass, and the tokens that clients write before their prompt."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Self

from dragoman import Adapter, Loss, Message, Role, TextBlock, get_adapter
from dragoman.answers import LossKind, Severity
from dragoman.errors import InvalidRequestError, UnknownProviderError
from dragoman_gateway.toml import load_table

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
        table = load_table("wires/headers.toml")[wire]
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


_REASON = "a token of the client that is not a prompt, and that no prompt cache would recognise, was left out"


class ClientTokens:
    """The tokens of one wire."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(re.compile(pattern) for pattern in patterns)

    @classmethod
    def of(cls, wire: str) -> Self:
        """Return the tokens of a wire by its name."""
        return cls(load_table("wires/client_tokens.toml")[wire]["patterns"])

    def remove(self, messages: Sequence[Message]) -> tuple[Sequence[Message], Loss | None]:
        """Return the messages without a token in the first one, and the loss; None if there is no token."""
        first = messages[0] if messages else None
        if first is None or first.role is not Role.SYSTEM:
            return messages, None
        kept = tuple(block for block in first.content if not self._is_token(block))
        if len(kept) == len(first.content):
            return messages, None
        loss = Loss(LossKind.FIELD, first.id, 0, _REASON, Severity.INFO, "text")
        changed = (first.model_copy(update={"content": kept}),) if kept else ()
        return (*changed, *messages[1:]), loss

    def _is_token(self, block: object) -> bool:
        return isinstance(block, TextBlock) and any(pattern.fullmatch(block.text) for pattern in self.patterns)


_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire that clients speak. ``provider`` names the adapter that reads its requests and writes its replies:
    requests to that provider are passed on as bytes."""

    name: str
    provider: str
    path: str
    ping: bytes
    """What a stream sends in silence; all known clients accept it."""
    request_id_header: bytes
    headers: HeaderRules
    tokens: ClientTokens
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

    def adapter(self, model: str) -> Adapter:
        """Return the adapter that answers as the model of that name; a name that cannot be one is not repeated."""
        return _adapter(self.provider, model or _UNKNOWN)


@lru_cache(256)
def _adapter(provider: str, model: str) -> Adapter:
    try:
        return get_adapter(f"{provider}:{model}")
    except UnknownProviderError:
        return get_adapter(f"{provider}:{_UNKNOWN}")
