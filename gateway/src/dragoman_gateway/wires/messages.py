"""Anthropic's Messages."""

from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.contract import Wire
from dragoman_gateway.wires.headers import HeaderRules

WIRE = Wire(
    name="messages",
    provider="anthropic",
    path="/v1/messages",
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    request_id_header=b"request-id",
    headers=HeaderRules.of("messages"),
    tokens=ClientTokens.of("messages"),
    stores_state=True,
    error_types={413: "request_too_large"},
    announces_tokens=True,
    signs_thinking=True,
    server_state={"thread": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
)
