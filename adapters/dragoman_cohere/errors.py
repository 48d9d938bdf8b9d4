"""What Cohere's errors mean: ``{"id": ..., "message": "text"}``, by HTTP and in a stream.

Source: docs.cohere.com/reference/errors. The status says most; only its words tell a prompt that is too long from
other bad requests.
"""

from collections.abc import Mapping
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
    class_for_status,
)
from dragoman.adapter.failures import Failure, error_object

_BY_STATUS: dict[int, type[ProviderError]] = {
    498: AuthenticationError,  # "invalid token"
    504: RequestTimeoutError,
}

_BY_WORDS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("too many tokens", ContextOverflowError),
    ("context length", ContextOverflowError),
    ("exceeds the limit of tokens", ContextOverflowError),
    ("blocked output", ContentFilterError),
    ("blocked input", ContentFilterError),
    ("model not found", NotFoundError),
)


def from_reply(status: int | None, body: bytes, headers: Mapping[str, str], provider: str, model: str) -> ProviderError:
    """The error of a reply with a failing status."""
    return from_event(error_object(body), provider, model, status=status, headers=headers, body=body)


def from_event(
    native: dict[str, Any],
    provider: str,
    model: str | None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> ProviderError:
    """The error of an error object, whichever way it came."""
    failure = Failure(
        provider=provider,
        model=model,
        status=status,
        headers=headers or {},
        message=native.get("message") or native.get("error") or body,
        code=native.get("code") or native.get("error_code"),
        request_id=native.get("id"),
    )
    if status is None or status < 400:
        kind: type[ProviderError] = ServerError
    else:
        kind = _BY_STATUS.get(status, class_for_status(status))
    if kind in (InvalidRequestError, ServerError):
        kind = next((found for words, found in _BY_WORDS if words in failure.text.lower()), kind)
    return failure.error(kind)
