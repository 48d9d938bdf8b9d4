"""Ollama's chat: a JSON object a line."""

from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.contract import Wire
from dragoman_gateway.wires.headers import HeaderRules

WIRE = Wire(
    name="ollama",
    provider="ollama",
    path="/api/chat",
    ping=b" ",  # clients read whole lines: a blank may precede an object, and an empty line is ignored
    first_ping=b" ",
    media_type=b"application/x-ndjson",
    event_ends=(b"\n",),
    request_id_header=b"x-request-id",
    untyped_bodies=True,
    headers=HeaderRules.of("ollama"),
    tokens=ClientTokens.of("ollama"),
    stores_state=True,
)
