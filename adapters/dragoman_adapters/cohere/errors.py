"""Decodes Cohere's errors, ``{"id": ..., "message": "text"}``, by HTTP and in a stream
(docs.cohere.com/reference/errors).

The status decides most cases. Only the message distinguishes a prompt that is too long from other bad requests.
"""

from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    ServerError,
)
from dragoman.adapter.replies.error_context import ErrorContext, class_for_status

_BY_STATUS: dict[int, type[ProviderError]] = {
    498: AuthenticationError,  # "invalid token"
    504: RequestTimeoutError,
}

_BY_MESSAGE: tuple[tuple[str, type[ProviderError]], ...] = (
    ("too many tokens", ContextOverflowError),
    ("context length", ContextOverflowError),
    ("exceeds the limit of tokens", ContextOverflowError),
    ("blocked output", ContentFilterError),
    ("blocked input", ContentFilterError),
    ("model not found", NotFoundError),
)


def decode_error(native: dict[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of an error object, by HTTP or in a stream."""
    failure = origin.failure(
        message=native.get("message") or native.get("error"),
        code=native.get("code") or native.get("error_code"),
        request_id=native.get("id"),
    )
    if origin.status is None or origin.status < 400:
        kind: type[ProviderError] = ServerError
    else:
        kind = _BY_STATUS.get(origin.status, class_for_status(origin.status))
    if kind in (InvalidRequestError, ServerError):
        kind = next((found for phrase, found in _BY_MESSAGE if phrase in failure.text.lower()), kind)
    return failure.error(kind)
