"""Decodes Cohere's errors, ``{"id": ..., "message": "text"}``, by HTTP and in a stream
(docs.cohere.com/reference/errors).

The status decides most cases. Only the message distinguishes a prompt that is too long from other bad requests.
"""

from typing import Any

from dragoman.adapter.errors import InvalidRequestError, ProviderError, ServerError
from dragoman.adapter.replies.error_context import ErrorContext, class_for_status, error_words, find_phrase

_PACKAGE = "dragoman_adapters.cohere"


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
        kind = error_words(_PACKAGE)["statuses"].get(str(origin.status)) or class_for_status(origin.status)
    if kind in (InvalidRequestError, ServerError):
        kind = find_phrase(_PACKAGE, failure.text) or kind
    return failure.error(kind)
