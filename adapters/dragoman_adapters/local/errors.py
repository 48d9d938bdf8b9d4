"""Decodes errors of the local transport, ``{"error": {"type": ..., "message": ...}}``, whole or as a line."""

from typing import Any

from dragoman.adapter.errors import ProviderError, ServerError
from dragoman.adapter.replies.error_context import ErrorContext, error_words


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an error object, by HTTP or in a stream."""
    inner = native.get("error")
    inner = inner if isinstance(inner, dict) else {}
    failure = origin.failure(
        message=inner.get("message"),
        code=inner.get("type"),
    )
    kind = error_words("dragoman_adapters.local")["types"].get(str(inner.get("type")))
    return failure.error(kind or (None if origin.status is not None and origin.status >= 400 else ServerError))
