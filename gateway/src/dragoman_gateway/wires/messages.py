"""Anthropic's Messages."""

from dragoman_gateway.wires.contract import Wire

WIRE = Wire(
    name="messages",
    provider="anthropic",
    path="/v1/messages",
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    request_id_header="request-id",
)
