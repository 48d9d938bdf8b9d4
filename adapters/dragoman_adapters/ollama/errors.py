"""Decodes Ollama's errors, ``{"error": "text"}``, by HTTP and in a stream (docs/reference/wires/ollama.md)."""

from typing import Any

from dragoman.adapter.errors import ProviderError, ServerError
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.error_table import ErrorTable

TABLE = ErrorTable("dragoman_adapters.ollama")


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an error object, by HTTP or in a stream. Its class follows from its message."""
    error = native.get("error")
    inner = error if isinstance(error, dict) else {}
    failure = origin.failure(
        message=inner.get("message") or error,
        code=inner.get("code") or inner.get("type"),
    )
    is_http_error = origin.status is not None and origin.status >= 400
    return failure.error(TABLE.find_phrase(failure.text) or (None if is_http_error else ServerError))
