"""Decodes errors of the Interactions API (https://ai.google.dev/gemini-api/docs/api-errors).

An error is ``{"error": {"code": ..., "message": ...}}``, by HTTP and inside a stream, where only the code tells its
class. Codes that are not listed are decoded like Google's other errors.
"""

from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    ServerError,
)
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman_adapters.google import errors

BY_CODE: dict[str, type[ProviderError]] = {
    "authentication": AuthenticationError,
    "cancelled": RequestCancelledError,
    "gateway_timeout": ServerError,
    "model_not_found": NotFoundError,
    "not_found": NotFoundError,
    "parameter_unknown": InvalidRequestError,
    "payment_required": BillingError,
    "permission_denied": PermissionDeniedError,
    "quota_exceeded": RateLimitError,
    "rate_limit_exceeded": RateLimitError,
}
_INVALID_REQUEST = "invalid_request"
"""The code whose message may report that the input is too long, as Google's INVALID_ARGUMENT does."""


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an event or of a failed interaction."""
    error = native.get("error")
    if error is None and isinstance(reported := native.get("errors"), list) and reported:
        error = reported[-1]
        native = {**native, "error": error}
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(error, dict) and isinstance(code, str) and code in BY_CODE:
        return origin.failure(message=error.get("message"), code=code).error(BY_CODE[code])
    if isinstance(error, dict) and code == _INVALID_REQUEST:
        native = {**native, "error": {"status": "INVALID_ARGUMENT", **error}}
    return errors.decode_error(native, origin)
