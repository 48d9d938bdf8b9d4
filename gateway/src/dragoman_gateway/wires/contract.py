"""What the gateway knows about the wire of a client: its address, its adapter, and its sign of life in a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman import Adapter, get_adapter


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire that clients speak. ``provider`` names the adapter that reads its requests and writes its replies."""

    name: str
    provider: str
    path: str
    ping: bytes
    """What a stream sends in silence; all known clients accept it."""
    request_id_header: str
    stream_headers: Mapping[str, str] = field(default_factory=dict)

    def adapter(self, model: str) -> Adapter:
        """Return the adapter that answers as the model of that name."""
        return get_adapter(f"{self.provider}:{model or 'unknown'}")
