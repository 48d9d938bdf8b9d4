"""What the codes of the Interactions API mean (https://ai.google.dev/gemini-api/docs/api-errors).

An error is ``{"error": {"code": ..., "message": ...}}``, by HTTP and inside a stream, where its code is all there is.
Codes that are not listed are read as Google's other errors are.
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
"""Its message may say that the input is too long, as that of Google's INVALID_ARGUMENT may."""


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """The error of an event, or of an interaction that failed."""
    error = native.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(error, dict) and isinstance(code, str) and code in BY_CODE:
        return origin.failure(message=error.get("message"), code=code).error(BY_CODE[code])
    if isinstance(error, dict) and code == _INVALID_REQUEST:
        native = {**native, "error": {"status": "INVALID_ARGUMENT", **error}}
    return errors.decode_error(native, origin)
