"""Decodes Bedrock's errors, by HTTP and inside a stream.

A failed reply names its exception in the header x-amzn-errortype, a stream in the frame. Source:
docs.aws.amazon.com/bedrock/latest/APIReference, the errors of Converse, ConverseStream and InvokeModel.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
)
from dragoman.adapter.replies.error_context import ErrorContext

BY_TYPE: dict[str, type[ProviderError]] = {
    "accessdenied": PermissionDeniedError,
    "conflict": InvalidRequestError,
    "expiredtoken": AuthenticationError,
    "incompletesignature": AuthenticationError,
    "internalserver": ServerError,
    "invalidsignature": AuthenticationError,
    "missingauthenticationtoken": AuthenticationError,
    "modelerror": ServerError,
    "modelnotready": OverloadedError,
    "modelstreamerror": ServerError,
    "modeltimeout": RequestTimeoutError,
    "resourcenotfound": NotFoundError,
    "servicequotaexceeded": RateLimitError,
    "serviceunavailable": OverloadedError,
    "throttling": RateLimitError,
    "unrecognizedclient": AuthenticationError,
    "validation": InvalidRequestError,
}
"""Classes by the exception's name in lower case, without its ending."""

_BY_STATUS: dict[int, type[ProviderError]] = {424: ServerError}

_OVERFLOW = (
    "input is too long", "prompt is too long", "too many input tokens", "maximum tokens you requested exceeds",
    "exceeds the maximum allowed input", "context window", "context limit", "maximum context length",
)  # fmt: skip


def decode_reply_error(native: Mapping[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of a failed reply."""
    # The header may continue with an address: "ValidationException:http://internal.amazon.com/...".
    named = str(origin.headers.get("x-amzn-errortype") or native.get("__type") or native.get("code") or "")
    return decode_error(native, origin, named.partition(":")[0].rpartition("#")[2])


def decode_error(native: Mapping[str, Any], origin: ErrorContext, name: str) -> ProviderError:
    """Return the error of an exception of that name, by HTTP or in a stream."""
    message = native.get("message") or native.get("Message") or native.get("originalMessage")
    failure, status = origin.failure(message=message, code=name or None), origin.status
    kind = BY_TYPE.get(name.lower().removesuffix("exception"))
    if kind is None and status is not None:
        kind = _BY_STATUS.get(status)
    is_bad_request = kind is InvalidRequestError or (kind is None and status in (400, 413))
    if is_bad_request and any(phrase in failure.text.lower() for phrase in _OVERFLOW):
        kind = ContextOverflowError
    if kind is None and (status is None or status < 400):
        kind = ServerError
    return failure.error(kind)
