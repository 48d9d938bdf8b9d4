"""What the errors of the local transport mean: ``{"error": {"type": ..., "message": ...}}``, whole or as a line."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import (
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    ServerError,
)
from dragoman.adapter.failures import Failure, error_object

BY_TYPE: dict[str, type[ProviderError]] = {
    "invalid_request": InvalidRequestError,
    "not_found": NotFoundError,
    "context_overflow": ContextOverflowError,
    "timeout": RequestTimeoutError,
    "runtime": ServerError,
}


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
    inner = native.get("error")
    inner = inner if isinstance(inner, dict) else {}
    failure = Failure(
        provider=provider,
        model=model,
        status=status,
        headers=headers or {},
        message=inner.get("message") or body,
        code=inner.get("type"),
    )
    kind = BY_TYPE.get(str(inner.get("type")))
    return failure.error(kind or (None if status is not None and status >= 400 else ServerError))
