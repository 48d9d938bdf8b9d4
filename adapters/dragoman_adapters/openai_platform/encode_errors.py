"""Encodes errors for clients of OpenAI's APIs (docs/answers.md#errors)."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import (
    error_headers,
    error_message,
    error_status,
    find_request_id,
    find_row,
    load_error_table,
    own_fields,
)
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.wire import WireResponse

ERRORS = load_error_table("dragoman_adapters.openai_platform")


def encode_error(error: DragomanError, context: RequestContext, provider: str) -> WireResponse:
    """Encode an error with its status."""
    status = error_status(error, find_row(error, ERRORS), provider)
    headers = {**error_headers(error), "x-request-id": find_request_id(error, context)}
    return WireResponse(status, wirejson.dumps({"error": error_object(error, provider)}), headers)


def error_object(error: DragomanError, provider: str) -> dict[str, Any]:
    """Return the object of an error, by HTTP or in a stream. An error of this wire's provider keeps its own words."""
    row = find_row(error, ERRORS)
    encoded = {"message": error_message(error), "type": row.kind, "param": None, "code": row.code}
    if isinstance(error, ProviderError) and error.provider == provider:
        encoded["code"] = error.code or row.code
    return {**encoded, **own_fields(error, provider)}
