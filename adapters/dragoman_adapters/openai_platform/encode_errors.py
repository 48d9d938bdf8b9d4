"""Encodes errors for clients of OpenAI's APIs (docs/answers.md#errors)."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import (
    ErrorRow,
    error_headers,
    error_message,
    error_status,
    error_table,
    find_request_id,
    find_row,
    own_fields,
)
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import (
    DragomanError,
    ProviderError,
)
from dragoman.adapter.wire import WireResponse

_INVALID = "invalid_request_error"

ERRORS = error_table(
    DragomanError=ErrorRow(500, "server_error", "server_error"),
    ProviderError=ErrorRow(500, "server_error", "server_error"),
    RequestError=ErrorRow(400, _INVALID),
    InvalidRequestError=ErrorRow(400, _INVALID),
    ContentFilterError=ErrorRow(400, _INVALID, "content_filter"),
    ContextOverflowError=ErrorRow(400, _INVALID, "context_length_exceeded"),
    AuthenticationError=ErrorRow(401, _INVALID, "invalid_api_key"),
    PermissionDeniedError=ErrorRow(403, _INVALID, "unsupported_country_region_territory"),
    NotFoundError=ErrorRow(404, _INVALID, "model_not_found"),
    NoModelError=ErrorRow(404, _INVALID, "model_not_found"),
    BillingError=ErrorRow(429, "insufficient_quota", "insufficient_quota"),
    BudgetExceededError=ErrorRow(429, "insufficient_quota", "insufficient_quota"),
    RateLimitError=ErrorRow(429, "requests", "rate_limit_exceeded"),
    RequestCancelledError=ErrorRow(499, "server_error"),
    NetworkError=ErrorRow(502, "server_error", "server_error"),
    MalformedReplyError=ErrorRow(502, "server_error", "server_error"),
    UnclassifiedError=ErrorRow(502, "server_error", "server_error"),
    RequestTimeoutError=ErrorRow(504, "timeout_error"),
    OverloadedError=ErrorRow(503, "server_error", "server_is_overloaded"),
)


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
