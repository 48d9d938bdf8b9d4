"""What the gateway knows about the wire of a client: its address, its adapter, and its keep-alive in a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import Adapter, get_adapter
from dragoman.errors import UnknownProviderError
from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.headers import HeaderRules

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
        try:
            return get_adapter(f"{self.provider}:{model or _UNKNOWN}")
        except UnknownProviderError:
            return get_adapter(f"{self.provider}:{_UNKNOWN}")
