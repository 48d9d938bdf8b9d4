"""Decodes errors in OpenAI's shapes, by HTTP and inside a stream (docs/reference/wires/openai-responses.md).

Both of OpenAI's APIs and all endpoints that copy them answer with one of these::

    {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
    {"error": "text", "code": ...}
    {"message": ..., "type": ..., "code": ...}
    {"detail": ...}, {"message": {"detail": [{"loc": [...], "msg": ...}]}}
"""

import re
from collections.abc import Mapping
from typing import Any

from dragoman.adapter.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    InvalidRequestError,
    PermissionDeniedError,
    ProviderError,
)
from dragoman.adapter.replies.error_context import ErrorContext, Failure, class_for_status, error_words, typed_fields

_REFINED: dict[type[ProviderError], tuple[type[ProviderError] | None, ...]] = {
    ContextOverflowError: (InvalidRequestError, None),
    AuthenticationError: (InvalidRequestError,),
    ContentFilterError: (PermissionDeniedError,),
}
"""What a phrase of the message tells apart, by what it means."""
_OWN_FIELDS = {"type": str, "param": str}
"""Some clients leave out the parameter that an error names, and ask again."""
_STATUS = re.compile("[45][0-9]{2}")


def decode_error(native: Mapping[str, Any], origin: ErrorContext) -> ProviderError:
    """Return the error that an object describes, by HTTP or in a stream. ``native`` holds ``error``, or is the
    error."""
    inner = native.get("error")
    if isinstance(inner, str):
        inner = {**native, "message": inner}
    elif not isinstance(inner, dict):
        inner = native
    code, kind_word = inner.get("code"), inner.get("type")
    failure = origin.failure(
        message=_message(inner),
        code=code if code is not None else kind_word,
        request_id=native.get("request_id"),
        own_fields=typed_fields(inner, _OWN_FIELDS),
    )
    return failure.error(_error_class(failure, code, kind_word))


def _message(inner: Mapping[str, Any]) -> Any:
    """Return the message; a router that only says "Provider returned error" has the provider's own text in another
    field."""
    text = inner.get("message") or inner.get("detail")
    if isinstance(text, dict):
        text = text.get("detail") or text
    if isinstance(text, list):
        text = "; ".join(map(_fault_text, text))
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):
        return f"{text}: {metadata.get('provider_name') or 'upstream'}: {metadata['raw']}"
    return text


def _fault_text(fault: Any) -> str:
    """Return one entry of a list of validation errors."""
    if not isinstance(fault, dict) or "msg" not in fault:
        return str(fault)
    place = fault.get("loc")
    return f"{'.'.join(map(str, place))}: {fault['msg']}" if isinstance(place, list) else str(fault["msg"])


def _error_class(failure: Failure, code: Any, kind_word: Any) -> type[ProviderError] | None:
    words = error_words("dragoman_adapters.openai_platform")
    for name in (code, kind_word):
        if found := words["codes"].get(str(name).lower()):
            return found
    status = failure.origin.status
    if status is None and _STATUS.fullmatch(str(code)):
        status = int(code)  # routers send the HTTP status as the code
    kind = words["types"].get(str(kind_word)) if status is None else class_for_status(status)
    text, phrases = failure.text.lower(), words["phrases"].items()
    return next((found for phrase, found in phrases if phrase in text and kind in _REFINED[found]), kind)
