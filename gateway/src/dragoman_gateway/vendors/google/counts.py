"""Counts tokens: countTokens of the Gemini API."""

from typing import Any

from starlette.types import Scope

from dragoman_gateway.endpoints.counting import CountEndpoint
from dragoman_gateway.turn.request import ClientRequest
from dragoman_gateway.vendors.google.endpoint import GoogleRequest
from dragoman_gateway.vendors.google.spelling import get_field


class GoogleCountEndpoint(CountEndpoint):
    """The request to count may be in a field of its own, with a model's name."""

    def read_request(self, scope: Scope, fields: dict[str, Any], **known: Any) -> ClientRequest:
        inner = get_field(fields, "generateContentRequest")
        fields = inner if isinstance(inner, dict) else fields
        repeats = fields.pop("model", None) is not None
        return GoogleRequest(
            wire=self._wire,
            fields=fields,
            named=scope["path_params"]["model"],
            streamed=False,
            repeats_model=repeats,
            **known,
        )

    def write_count(self, tokens: int) -> dict[str, Any]:
        return {"totalTokens": tokens}
