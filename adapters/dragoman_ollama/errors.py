"""What Ollama's errors mean: ``{"error": "text"}``, by HTTP and as a line of a stream (wire reference 5)."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import ContextOverflowError, NotFoundError, ProviderError, ServerError
from dragoman.adapter.failures import Failure, error_object

_BY_WORDS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("not found", NotFoundError),
    ("exceeds the available context", ContextOverflowError),
    ("context length", ContextOverflowError),
)


def from_reply(status: int | None, body: bytes, headers: Mapping[str, str], provider: str, model: str) -> ProviderError:
    """The error of a reply with a failing status, or of an error object under status 200."""
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
    """The error of an error object, whichever way it came. Only its words tell what it means."""
    said = native.get("error")
    inner = said if isinstance(said, dict) else {}
    failure = Failure(
        provider=provider,
        model=model,
        status=status,
        headers=headers or {},
        message=inner.get("message") or said or body,
        code=inner.get("code") or inner.get("type"),
    )
    failing = status if status is not None and status >= 400 else None
    kind = next((kind for words, kind in _BY_WORDS if words in failure.text.lower()), None)
    return failure.error(kind or (None if failing else ServerError))
