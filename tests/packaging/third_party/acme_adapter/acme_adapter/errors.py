"""What Acme's faults mean: ``{"fault": {"code": ..., "message": ...}}``, by HTTP and in a stream."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapters import ErrorContext
from dragoman.errors import (
    AuthenticationError,
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
)

_BY_CODE: dict[str, type[ProviderError]] = {
    "bad-key": AuthenticationError,
    "busy": OverloadedError,
    "no-such-engine": NotFoundError,
    "too-long": ContextOverflowError,
    "too-many": RateLimitError,
}


def decode_error(native: Mapping[str, Any], origin: ErrorContext) -> ProviderError:
    """The error of a fault. A fault in a stream has no status: without a known code it is the server's."""
    error_object = native.get("fault")
    fault = error_object if isinstance(error_object, dict) else {}
    code = fault.get("code")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    failure = origin.failure(message=fault.get("message"), code=code)
    return failure.error(kind or (None if origin.status else ServerError))
