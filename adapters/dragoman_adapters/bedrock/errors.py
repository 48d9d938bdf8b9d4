"""Decodes Bedrock's errors, by HTTP and inside a stream.

A failed reply names its exception in the header x-amzn-errortype, a stream in the frame. Source:
docs.aws.amazon.com/bedrock/latest/APIReference, the errors of Converse, ConverseStream and InvokeModel.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import InvalidRequestError, ProviderError, ServerError
from dragoman.adapter.replies.error_context import ErrorContext, error_words, find_phrase

_PACKAGE = "dragoman_adapters.bedrock"


def decode_reply_error(native: Mapping[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error of a failed reply."""
    # The header may continue with an address: "ValidationException:http://internal.amazon.com/...".
    named = str(origin.headers.get("x-amzn-errortype") or native.get("__type") or native.get("code") or "")
    return decode_error(native, origin, named.partition(":")[0].rpartition("#")[2])


def decode_error(native: Mapping[str, Any], origin: ErrorContext, name: str) -> ProviderError:
    """Return the error of an exception of that name, by HTTP or in a stream."""
    message = native.get("message") or native.get("Message") or native.get("originalMessage")
    failure, status = origin.failure(message=message, code=name or None), origin.status
    words = error_words(_PACKAGE)
    kind = words["exceptions"].get(name.lower().removesuffix("exception")) or words["statuses"].get(str(status))
    if kind is InvalidRequestError or (kind is None and status in (400, 413)):
        kind = find_phrase(_PACKAGE, failure.text) or kind
    if kind is None and (status is None or status < 400):
        kind = ServerError
    return failure.error(kind)
