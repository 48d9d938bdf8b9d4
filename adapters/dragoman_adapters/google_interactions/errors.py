"""Decodes errors of the Interactions API (https://ai.google.dev/gemini-api/docs/api-errors).

An error is ``{"error": {"code": ..., "message": ...}}``, by HTTP and inside a stream, where only the code tells its
class. Codes that are not listed are decoded like Google's other errors.
"""

from typing import Any

from dragoman.adapter.errors import ProviderError
from dragoman.adapter.replies.error_context import ErrorContext, error_words
from dragoman_adapters.google import errors

_INVALID_REQUEST = "invalid_request"
"""The code whose message may report that the input is too long, as Google's INVALID_ARGUMENT does."""


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an event or of a failed interaction."""
    error = native.get("error")
    if error is None and isinstance(reported := native.get("errors"), list) and reported:
        error = reported[-1]
        native = {**native, "error": error}
    code = error.get("code") if isinstance(error, dict) else None
    kind = error_words("dragoman_adapters.google_interactions")["codes"].get(str(code))
    if isinstance(error, dict) and kind is not None:
        return origin.failure(message=error.get("message"), code=code).error(kind)
    if isinstance(error, dict) and code == _INVALID_REQUEST:
        native = {**native, "error": {"status": "INVALID_ARGUMENT", **error}}
    return errors.decode_error(native, origin)
