"""What Ollama's errors mean: ``{"error": "text"}``, by HTTP and as a line of a stream (wire reference 5)."""

from typing import Any

from dragoman.adapter.errors import ContextOverflowError, NotFoundError, ProviderError, ServerError
from dragoman.adapter.failures import Origin

_BY_WORDS: tuple[tuple[str, type[ProviderError]], ...] = (
    ("not found", NotFoundError),
    ("exceeds the available context", ContextOverflowError),
    ("context length", ContextOverflowError),
)


def read(native: dict[str, Any], origin: Origin) -> ProviderError:
    """The error of an error object, whichever way it came. Only its words tell what it means."""
    said = native.get("error")
    inner = said if isinstance(said, dict) else {}
    failure = origin.failure(
        message=inner.get("message") or said,
        code=inner.get("code") or inner.get("type"),
    )
    failing = origin.status is not None and origin.status >= 400
    kind = next((kind for words, kind in _BY_WORDS if words in failure.text.lower()), None)
    return failure.error(kind or (None if failing else ServerError))
