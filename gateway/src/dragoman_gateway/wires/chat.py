"""OpenAI's Chat Completions."""

from dragoman_gateway.wires.client_tokens import ClientTokens
from dragoman_gateway.wires.contract import Wire
from dragoman_gateway.wires.headers import HeaderRules

WIRE = Wire(
    name="chat",
    provider="openai-chat",
    path="/v1/chat/completions",
    ping=b": keep-alive\n\n",
    asks_for_usage=True,
    request_id_header=b"x-request-id",
    headers=HeaderRules.of("chat"),
    tokens=ClientTokens.of("chat"),
    stores_state=True,
    renames_fields=True,
)
