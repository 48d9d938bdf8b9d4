"""Google's generateContent: as server-sent events, and as one JSON array."""

from dataclasses import replace

from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.contract import Wire
from dragoman_gateway.wires.headers import HeaderRules

WIRE = Wire(
    name="google",
    provider="google",
    path="/v1beta/models/{model}:generateContent",
    ping=b"\r\n\r\n",  # the official client for Python takes a comment for a broken reply
    first_ping=b"\r\n\r\n",
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("google"),
    tokens=ClientTokens.of("google"),
)

ARRAY = replace(WIRE, media_type=b"application/json")
"""A stream without ``alt=sse``. White space is allowed between the elements of an array."""
