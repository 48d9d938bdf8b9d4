"""Decodes Anthropic's errors, by HTTP and inside a stream (docs/reference/wires/anthropic.md)."""

from typing import Any

from dragoman.adapter.errors import ExpiredReferenceError, InvalidRequestError, ProviderError
from dragoman.adapter.replies.error_context import ErrorContext, error_words, find_phrase, typed_fields

_PACKAGE = "dragoman_adapters.anthropic"
_OWN_FIELDS = {"type": str, "details": dict}
"""Anthropic's SDKs choose among some ninety classes by the code in the details."""
_LOST_THREAD = ("thread_not_found", "thread_already_continued", "thread_continue_in_flight")
"""The codes of errors after which the whole history begins a new thread."""


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
    kind = error_words(_PACKAGE)["types"].get(str(inner.get("type")))
    if kind in (InvalidRequestError, None):
        kind = find_phrase(_PACKAGE, failure.text) or kind
    error = failure.error(ExpiredReferenceError if failure.code in _LOST_THREAD else kind)
    if isinstance(error, ExpiredReferenceError) and failure.code in _LOST_THREAD:
        error.reference = "response"
    return error
