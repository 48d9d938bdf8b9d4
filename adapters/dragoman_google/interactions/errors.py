"""What the codes of the Interactions API mean (https://ai.google.dev/gemini-api/docs/api-errors).

An error is ``{"error": {"code": ..., "message": ...}}``, by HTTP and inside a stream, where its code is all there is.
Codes that are not listed are read as Google's other errors are.
"""

from collections.abc import Mapping
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
from dragoman.adapter.failures import Failure, error_object
from dragoman_google import errors

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
_INVALID = "invalid_request"
"""Its message may say that the input is too long, as that of Google's INVALID_ARGUMENT may."""


def from_reply(status: int | None, body: bytes, headers: Mapping[str, str], provider: str, model: str) -> ProviderError:
    """The error of a reply with a failing status, or with an error in its body."""
    return from_event(error_object(body), provider, model, status=status, headers=headers, body=body)


def from_event(
    native: dict[str, Any],
    provider: str,
    model: str | None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> ProviderError:
    """The error of an event, or of an interaction that failed."""
    error = native.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(error, dict) and isinstance(code, str) and code in BY_CODE:
        said = error.get("message")
        failure = Failure(provider=provider, model=model, message=said, status=status, code=code, headers=headers or {})
        return failure.error(BY_CODE[code])
    if isinstance(error, dict) and code == _INVALID:
        native = {**native, "error": {"status": "INVALID_ARGUMENT", **error}}
    return errors.from_event(native, provider, model, status=status, headers=headers, body=body)
