"""OpenAI's Responses."""

from dragoman_gateway.wires.contract import Wire

WIRE = Wire(
    name="responses",
    provider="openai",
    path="/v1/responses",
    ping=b": keep-alive\n\n",
    request_id_header="x-request-id",
)
