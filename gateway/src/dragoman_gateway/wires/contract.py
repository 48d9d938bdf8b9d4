"""What the gateway knows about the wire of a client: its address, its adapter, and its sign of life in a stream."""

from dataclasses import dataclass

from dragoman import Adapter, get_adapter
from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.headers import HeaderRules


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire that clients speak. ``provider`` names the adapter that reads its requests and writes its replies: what
    goes to that provider goes through as bytes."""

    name: str
    provider: str
    path: str
    ping: bytes
    """What a stream sends in silence; all known clients accept it."""
    request_id_header: bytes
    headers: HeaderRules
    tokens: ClientTokens
    announces_tokens: bool = False
    """Whether the start of a stream has the tokens of the prompt, which most providers know at its end only."""

    def adapter(self, model: str) -> Adapter:
        """Return the adapter that answers as the model of that name."""
        return get_adapter(f"{self.provider}:{model or 'unknown'}")
