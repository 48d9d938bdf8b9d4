"""What a program needs to answer clients in their own wires: ids that come back, provider state that travels with a
reply, and requests without a session.

The methods themselves are the adapter's: `Adapter.from_wire_request`, `to_wire_response` and `encode_stream`
(docs/answers.md).
"""

from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.provider_state import holds_state
from dragoman.adapter.answers.relay import Relay
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.adapter.context import KeptHistory, KeptPart, StateSealer, StateStore
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.encode_cache import SharedEncodeCache
from dragoman.adapter.wire import Upload
from dragoman.answers.forwarding import forward
from dragoman.answers.provider_request import ProviderRequest
from dragoman.attempt.attempt import Attempt
from dragoman.effects import drive_async

__all__ = [
    "Attempt",
    "ClientToolIds",
    "KeptHistory",
    "KeptPart",
    "LossKind",
    "ProviderRequest",
    "Relay",
    "Severity",
    "SharedEncodeCache",
    "StateKeys",
    "StateMemory",
    "StateSealer",
    "StateStore",
    "Upload",
    "drive_async",
    "forward",
    "holds_state",
]
