"""One request of a client, as it was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman import Adapter
from dragoman_gateway.access import Caller
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.turn.model_name import replace_model
from dragoman_gateway.wires import Wire

HISTORIES = ("messages", "input")
"""The fields with the conversation, by wire."""


@dataclass(slots=True, kw_only=True)
class ClientRequest:
    """What is known of a request before it is asked."""

    wire: Wire
    caller: Caller
    request_id: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    fields: dict[str, Any] = field(repr=False)
    record: RequestRecord

    @property
    def model(self) -> str:
        """The name that the client asked for."""
        name: str = self.fields["model"]
        return name

    @property
    def requested_model(self) -> str:
        """The name as the settings have it."""
        return self.model

    @property
    def stream(self) -> bool:
        return self.fields.get("stream") is True

    @property
    def query(self) -> Mapping[str, str]:
        """The part of the address that decides the form of the reply."""
        return {}

    @property
    def rewrites_reply(self) -> bool:
        """Whether the client wants another form than a provider of its wire sends."""
        return False

    def forget_history(self) -> None:
        """Release the conversation of a stream that has begun: it may be long, and is asked nowhere else."""
        self.body = b""
        self.fields = {name: [] if name in HISTORIES else value for name, value in self.fields.items()}

    def body_for(self, adapter: Adapter) -> bytes | None:
        """Return the bytes for a model of the same provider; None if the request has to be encoded."""
        return replace_model(self.body, self.fields, adapter.model)
