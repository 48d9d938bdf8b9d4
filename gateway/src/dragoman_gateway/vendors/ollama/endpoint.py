"""The chat of Ollama's clients: it streams unless the client disables streaming, and the content type does not
matter."""

from dataclasses import dataclass
from typing import Any

from starlette.types import Scope

from dragoman import Adapter
from dragoman_gateway.bodies.read import check_model
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.vendors.ollama.generate import GENERATE
from dragoman_gateway.vendors.ollama.names import plain_name


@dataclass(slots=True, kw_only=True)
class OllamaRequest(ClientRequest):
    """A request that asks for a stream by default."""

    @property
    def requested_model(self) -> str:
        return plain_name(self.model)

    @property
    def stream(self) -> bool:
        return self.fields.get("stream") is not False

    def body_for(self, adapter: Adapter) -> bytes | None:
        """Return the bytes of a chat; None for generate, which is sent as a chat."""
        return None if self.wire is GENERATE else ClientRequest.body_for(self, adapter)


class OllamaEndpoint(Endpoint):
    """An ASGI application for chat or generate."""

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        return OllamaRequest(wire=self._wire, fields=check_model(fields), **known)
