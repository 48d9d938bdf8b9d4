"""generateContent, streamGenerateContent and countTokens: the address names the model, and whether to stream."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import QueryParams
from starlette.types import Scope

from dragoman import Adapter
from dragoman_gateway.bodies.model_name import replace_model
from dragoman_gateway.endpoints.counting import CountEndpoint
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.wires import GOOGLE, GOOGLE_ARRAY

_CAPITAL = re.compile(r"(?<!^)[A-Z]")


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field by its name in camelCase; None if it is absent. Google reads its fields in snake_case
    too, and clients write both."""
    if (found := fields.get(name)) is not None:
        return found
    return fields.get(_CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name))


@dataclass(slots=True, kw_only=True)
class GoogleRequest(ClientRequest):
    """A request whose address contains what other wires write into the body."""

    repeats_model: bool
    """Whether the body has the model's name as well."""

    def body_for(self, adapter: Adapter, **_: bool) -> bytes:
        """Return the body as it is. A model's name that it repeats is replaced."""
        if not self.repeats_model:
            return self.body
        return replace_model(self.body, {"model": None}, f"models/{adapter.model}")


class GoogleEndpoint(Endpoint):
    """An ASGI application for one of the two addresses."""

    def __init__(self, gateway: Gateway, *, streamed: bool) -> None:
        super().__init__(gateway, GOOGLE)
        self._streamed = streamed

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        repeated = fields.pop("model", None)
        as_array = self._streamed and QueryParams(scope["query_string"]).get("alt") != "sse"
        return GoogleRequest(
            wire=GOOGLE_ARRAY if as_array else GOOGLE,
            fields=fields,
            model=scope["path_params"]["model"],
            stream=self._streamed,
            query={"alt": "json"} if as_array else {},  # Google's own stream always comes as events
            repeats_model=repeated is not None,
            **known,
        )


class GoogleCountEndpoint(CountEndpoint):
    """The request to count may be in a field of its own, with a model's name."""

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        inner = get_field(fields, "generateContentRequest")
        fields = inner if isinstance(inner, dict) else fields
        repeats = fields.pop("model", None) is not None
        return GoogleRequest(
            wire=self._wire,
            fields=fields,
            model=scope["path_params"]["model"],
            stream=False,
            repeats_model=repeats,
            **known,
        )

    def write_count(self, tokens: int) -> dict[str, Any]:
        return {"totalTokens": tokens}
