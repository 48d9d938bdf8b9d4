"""One request of a client, as it was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman_gateway.access import Caller
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.wires import Wire


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
    def stream(self) -> bool:
        return self.fields.get("stream") is True
