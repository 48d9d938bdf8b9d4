"""Decodes Anthropic's errors, by HTTP and inside a stream (docs/reference/wires/anthropic.md)."""

from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    ContextOverflowError,
    ExpiredReferenceError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
)
from dragoman.adapter.replies.error_context import ErrorContext, typed_fields

BY_TYPE: dict[str, type[ProviderError]] = {
    "invalid_request_error": InvalidRequestError,
    "authentication_error": AuthenticationError,
    "billing_error": BillingError,
    "permission_error": PermissionDeniedError,
    "not_found_error": NotFoundError,
    "request_too_large": ContextOverflowError,
    "rate_limit_error": RateLimitError,
    "timeout_error": RequestTimeoutError,
    "api_error": ServerError,
    "overloaded_error": OverloadedError,
}

_OWN_FIELDS = {"type": str, "details": dict}
"""Anthropic's SDKs choose among some ninety classes by the code in the details."""
_LOST_THREAD = ("thread_not_found", "thread_already_continued", "thread_continue_in_flight")
"""The codes of errors after which the whole history begins a new thread."""
_OVERFLOW = ("prompt is too long", "exceed context", "context limit", "context window", "tokens >")


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of ``{"type": "error", "error": {...}}``, by HTTP or in a stream."""
    inner = native.get("error")
    inner = inner if isinstance(inner, dict) else {}
    details = inner.get("details")
    failure = origin.failure(
        message=inner.get("message") or native.get("message"),
        code=(details.get("error_code") if isinstance(details, dict) else None) or inner.get("type"),
        request_id=native.get("request_id") or origin.headers.get("request-id"),
        own_fields=typed_fields(inner, _OWN_FIELDS),
    )
    kind = BY_TYPE.get(str(inner.get("type")))
    if kind in (InvalidRequestError, None) and any(phrase in failure.text.lower() for phrase in _OVERFLOW):
        kind = ContextOverflowError
    error = failure.error(ExpiredReferenceError if failure.code in _LOST_THREAD else kind)
    if isinstance(error, ExpiredReferenceError) and failure.code in _LOST_THREAD:
        error.reference = "response"
    return error
