"""What Acme's faults mean: ``{"fault": {"code": ..., "message": ...}}``, by HTTP and in a stream."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
)
from dragoman.adapter.replies.error_context import Failure, parse_error_body

_BY_CODE: dict[str, type[ProviderError]] = {
    "bad-key": AuthenticationError,
    "busy": OverloadedError,
    "no-such-engine": NotFoundError,
    "too-long": ContextOverflowError,
    "too-many": RateLimitError,
}


def decode_reply_error(status: int | None, body: bytes, headers: Mapping[str, str], model: str) -> ProviderError:
    """The error of a reply with a failing status."""
    return _decode_error(parse_error_body(body), model, body, status, headers)


def decode_stream_error(native: Mapping[str, Any], model: str | None) -> ProviderError:
    """The error of a fault in a stream. Without a code of its own it is the server's."""
    return _decode_error(native, model, b"", None, {})


def _decode_error(
    native: Mapping[str, Any], model: str | None, body: bytes, status: int | None, headers: Mapping[str, str]
) -> ProviderError:
    error_object = native.get("fault")
    fault = error_object if isinstance(error_object, dict) else {}
    code = fault.get("code")
    kind = _BY_CODE.get(code) if isinstance(code, str) else None
    failure = Failure(
        provider="acme",
        model=model,
        status=status,
        headers=headers,
        message=fault.get("message") or body,
        code=code,
    )
    return failure.error(kind or (None if status else ServerError))
