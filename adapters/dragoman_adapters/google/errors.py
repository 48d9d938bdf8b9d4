"""Decodes Google's errors, google.rpc.Status, by HTTP and inside a stream (docs/reference/wires/google.md)."""

import re
from dataclasses import replace
from typing import Any

from dragoman.adapter.errors import InvalidRequestError, ProviderError
from dragoman.adapter.replies.error_context import (
    ErrorContext,
    class_for_status,
    error_words,
    find_phrase,
    typed_fields,
)
from dragoman.adapter.wire import Headers

_PACKAGE = "dragoman_adapters.google"
_OWN_FIELDS = {"status": str, "details": list}
"""Fields that a gateway passes on to clients of this wire: Gemini CLI reads in the details which quota is used up, and
for how long."""
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
    # The wait of a RetryInfo, unless a header has one.
    delays = (_DELAY.fullmatch(str(each.get("retryDelay"))) for each in details)
    if (delay := next(filter(None, delays), None)) is not None:
        origin = replace(origin, headers=Headers({"retry-after": delay[1], **origin.headers}))
    failure = origin.failure(
        message=inner.get("message") or error,
        code=reason or status_name or inner.get("code"),
        own_fields=typed_fields(inner, _OWN_FIELDS),
    )
    words = error_words(_PACKAGE)
    kind = words["reasons"].get(str(reason)) or words["statuses"].get(str(status_name).upper())
    if kind in (InvalidRequestError, None):
        kind = find_phrase(_PACKAGE, failure.text) or kind
    if kind is None and origin.status is None and isinstance(inner.get("code"), int):
        # In a stream the code is the HTTP status: the real one was sent before the error.
        return failure.error(class_for_status(inner["code"]))
    return failure.error(kind)  # without a kind, that of the HTTP status
