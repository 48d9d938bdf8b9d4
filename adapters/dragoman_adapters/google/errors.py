"""Decodes Google's errors, google.rpc.Status, by HTTP and inside a stream (docs/reference/wires/google.md)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    ServerError,
)
from dragoman.adapter.replies.error_context import ErrorContext, class_for_status, typed_fields
from dragoman.adapter.wire import Headers

BY_STATUS: dict[str, type[ProviderError]] = {
    "INVALID_ARGUMENT": InvalidRequestError,
    "FAILED_PRECONDITION": InvalidRequestError,
    "OUT_OF_RANGE": InvalidRequestError,
    "UNIMPLEMENTED": InvalidRequestError,
    "UNAUTHENTICATED": AuthenticationError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "NOT_FOUND": NotFoundError,
    "RESOURCE_EXHAUSTED": RateLimitError,
    "CANCELLED": RequestCancelledError,
    "INTERNAL": ServerError,
    "UNKNOWN": ServerError,
    "DATA_LOSS": ServerError,
    "UNAVAILABLE": OverloadedError,
    "DEADLINE_EXCEEDED": ServerError,
}

BY_REASON: dict[str, type[ProviderError]] = {
    "API_KEY_INVALID": AuthenticationError,
    "API_KEY_EXPIRED": AuthenticationError,
    "ACCESS_TOKEN_EXPIRED": AuthenticationError,
    "CREDENTIALS_MISSING": AuthenticationError,
    "RATE_LIMIT_EXCEEDED": RateLimitError,
}
"""Classes by the reason of an ErrorInfo, which is more precise than the status."""

_OWN_FIELDS = {"status": str, "details": list}
"""Fields that a gateway passes on to clients of this wire: Gemini CLI reads in the details which quota is used up, and
for how long."""
_OVERFLOW = ("exceeds the maximum number of tokens", "input token count", "context length", "context window")
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of ``{"error": {"code": ..., "message": ..., "status": ..., "details": [...]}}``, by HTTP or in
    a stream.
    """
    error = native.get("error")
    inner: dict[str, Any] = error if isinstance(error, dict) else {}
    native_details = inner.get("details")
    details = [each for each in native_details if isinstance(each, dict)] if isinstance(native_details, list) else []
    reason = next((each["reason"] for each in details if isinstance(each.get("reason"), str)), None)
    status_name = inner.get("status") or (inner.get("code") if isinstance(inner.get("code"), str) else None)
    origin = replace(origin, headers=_add_retry_after(origin.headers, details))
    failure = origin.failure(
        message=inner.get("message") or error,
        code=reason or status_name or inner.get("code"),
        own_fields=typed_fields(inner, _OWN_FIELDS),
    )
    kind = BY_REASON.get(reason or "") or BY_STATUS.get(str(status_name).upper())
    if kind in (InvalidRequestError, None) and any(phrase in failure.text.lower() for phrase in _OVERFLOW):
        kind = ContextOverflowError
    if kind is None and origin.status is None and isinstance(inner.get("code"), int):
        # In a stream the code is the HTTP status: the real one was sent before the error.
        return failure.error(class_for_status(inner["code"]))
    return failure.error(kind)  # without a kind, that of the HTTP status


def _add_retry_after(headers: Mapping[str, str], details: list[dict[str, Any]]) -> Mapping[str, str]:
    """Return the headers with the wait of a RetryInfo, unless a header has one."""
    for each in details:
        delay = each.get("retryDelay")
        if isinstance(delay, str) and (found := _DELAY.fullmatch(delay)):
            return Headers({"retry-after": found[1], **headers})
    return headers
