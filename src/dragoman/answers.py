"""What a program needs to answer clients in their own wires: ids that return, and state of providers that travels.

The methods themselves are the adapter's: `Adapter.from_wire_request`, `to_wire_response` and `encode_stream`
(docs/answers.md).
"""

from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.relay import Relay
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.adapter.context import StateSealer, StateStore

__all__ = ["ClientToolIds", "Relay", "StateKeys", "StateMemory", "StateSealer", "StateStore"]
