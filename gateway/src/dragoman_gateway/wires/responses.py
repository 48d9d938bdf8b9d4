"""OpenAI's Responses."""

from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.contract import Wire
from dragoman_gateway.wires.headers import HeaderRules

WIRE = Wire(
    name="responses",
    provider="openai",
    path="/v1/responses",
    ping=b": keep-alive\n\n",
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("responses"),
    tokens=ClientTokens.of("responses"),
    server_state={"conversation": {}},
)
