"""Decodes Ollama's errors, ``{"error": "text"}``, by HTTP and in a stream (docs/reference/wires/ollama.md)."""

from typing import Any

from dragoman.adapter.errors import ProviderError, ServerError
from dragoman.adapter.replies.error_context import ErrorContext, find_phrase


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an error object, by HTTP or in a stream. Its class follows from its message."""
    error = native.get("error")
    inner = error if isinstance(error, dict) else {}
    failure = origin.failure(
        message=inner.get("message") or error,
        code=inner.get("code") or inner.get("type"),
    )
    is_http_error = origin.status is not None and origin.status >= 400
    kind = find_phrase("dragoman_adapters.ollama", failure.text)
    return failure.error(kind or (None if is_http_error else ServerError))
