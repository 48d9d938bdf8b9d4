"""Builds errors from failed replies, for all providers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from dragoman.adapter import errors, wirejson
from dragoman.adapter.package_data import read_toml

REQUEST_ID_HEADERS = (
    "request-id", "x-request-id", "apim-request-id", "x-amzn-requestid", "x-generation-id",
    "mistral-correlation-id", "x-goog-request-id", "cf-ray",
)  # fmt: skip
"""Headers with the provider's id of a request, the most specific first."""

_BY_STATUS: dict[int, type[errors.ProviderError]] = {
    401: errors.AuthenticationError,
    402: errors.BillingError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    408: errors.RequestTimeoutError,
    413: errors.ContextOverflowError,
    429: errors.RateLimitError,
    498: errors.OverloadedError,  # Groq's
    499: errors.RequestCancelledError,
    503: errors.OverloadedError,
    529: errors.OverloadedError,
}


def class_for_status(status: int) -> type[errors.ProviderError]:
    """Return the class of an HTTP status without a more precise code (docs/reference/contract.md#errors)."""
    if found := _BY_STATUS.get(status):
        return found
    if status >= 500:
        return errors.ServerError
    return errors.InvalidRequestError if status >= 400 else errors.UnclassifiedError


@cache
def error_words(package: str) -> Mapping[str, Mapping[str, type[errors.ProviderError]]]:
    """Return what a provider's words for errors mean, by table of the errors.toml of its adapter. The file is read with
    the first error."""
    return {
        table: {word: getattr(errors, kind) for kind, words in classes.items() for word in words}
        for table, classes in read_toml(package, "errors.toml").items()
        if table != "rows"
    }


def find_phrase(package: str, text: str) -> type[errors.ProviderError] | None:
    """Return what the first of the ``phrases`` in a message means, by the errors.toml of an adapter; None without
    one."""
    lowered = text.lower()
    return next((kind for phrase, kind in error_words(package)["phrases"].items() if phrase in lowered), None)


_MAX_SEARCHED = 2_000
"""Characters of a message in which a lost container or file is looked for."""
_GONE = r"(?:expired|not found|not exist|no longer|been deleted)"
_EXPIRED = {
    "container": re.compile(rf"\bcontainer\b(?!_)[^.!?]{{0,120}}\b{_GONE}"),
    "file": re.compile(
        rf"\bno such file object\b|\bfiles?[-_/][a-z0-9][\w-]*[^!?]{{0,120}}\b{_GONE}"
        rf"|\bfile not found: file[-_]|\baccess the file \S+ or it may not exist\b|\bfile [^.!?]{{0,60}}\bexpired\b"
    ),
    "response": re.compile(
        rf"\bprevious[ _]response\b[^!?]{{0,120}}\b{_GONE}|\binvalid [`'\"]?previous_(?:response|interaction)_id"
        rf"|\binteraction\b[^.!?]{{0,120}}\b{_GONE}|\bprevious_interaction_id\b[^!?]{{0,120}}\b{_GONE}"
    ),
    "conversation": re.compile(rf"\bconversation\b(?!_)[^.!?]{{0,120}}\b{_GONE}"),
}
"""The words with which providers report that a container or a file of the request is gone."""
_ADVICE = {
    "container": "Ask without the id of the container: the provider then makes a new one. Its files are gone, too",
    "file": "Upload the file again, and use its new id in place of the old one",
    "response": "Ask without its id, and send the whole history",
    "conversation": "Ask without its id, and send the whole history",
}


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The origin of an error of a ``provider`` and a ``model``: a reply, with its ``status``, ``headers`` and ``body``,
    or a stream, which has none of these."""

    provider: str
    model: str | None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def failure(
        self, *, message: Any, code: Any = None, request_id: Any = None, own_fields: Mapping[str, Any] | None = None
    ) -> "Failure":
        """Return the reported error; the body is its message if the object has none."""
        return Failure(self, message or self.body, code, request_id, own_fields or {})


@dataclass(frozen=True, slots=True)
class Failure:
    """A provider's report of an error. ``message`` may be any value: it becomes a bounded text."""

    origin: ErrorContext
    message: Any
    code: Any
    request_id: Any
    own_fields: Mapping[str, Any]
    """What only clients of the provider's own wire understand, by the names of its error object."""

    @property
    def text(self) -> str:
        text = self.message.decode("utf-8", "replace") if isinstance(self.message, bytes) else self.message
        return str(text).strip() if text else f"status {self.origin.status} without a message"

    def error(self, kind: type[errors.ProviderError] | None = None) -> errors.ProviderError:
        """Return the error of that class, or of the status's class if None is given."""
        origin, message = self.origin, self.text
        if kind is None:
            kind = class_for_status(origin.status) if origin.status is not None else errors.UnclassifiedError
        reference = None
        if kind in (errors.InvalidRequestError, errors.NotFoundError, errors.PermissionDeniedError):
            searched = message[:_MAX_SEARCHED].lower()
            reference = next((name for name, pattern in _EXPIRED.items() if pattern.search(searched)), None)
        if reference is not None:
            message, kind = f"{message.rstrip('.')}. {_ADVICE[reference]}", errors.ExpiredReferenceError
        request_id = self.request_id or _request_id(origin.headers)
        error = kind(
            message,
            provider=origin.provider,
            model=origin.model,
            status=origin.status,
            code=None if self.code is None else str(self.code),
            request_id=None if request_id is None else str(request_id),
            retry_after=retry_after(origin.headers),
        )
        error.own_fields = _mask_values(dict(self.own_fields))
        if isinstance(error, errors.ExpiredReferenceError) and reference is not None:
            error.reference = reference
        return error


def add_response_facts(
    error: errors.ProviderError, provider: str, headers: Mapping[str, str], status: int | None = None
) -> None:
    """Add the facts of the response to an error that was found in its body. ``status`` is that of a whole reply; an
    error that the body reports has none, as in a stream."""
    error.provider = error.provider or provider
    error.request_id = error.request_id or _request_id(headers)
    if error.retry_after is None:
        error.retry_after = retry_after(headers)
    if isinstance(error, errors.MalformedReplyError) and error.status is None:
        error.status = status


def parse_error_body(body: bytes) -> dict[str, Any]:
    """Parse the JSON object of an error body; an empty one if it is anything else (HTML, text, an array)."""
    try:
        value = wirejson.loads(body)
    except errors.MalformedReplyError:
        return {}
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else {}


def malformed_reply(provider: str, error: Exception) -> errors.MalformedReplyError:
    """Return the error of a reply whose reading raised one of `UNREADABLE_ERRORS`."""
    reason = str(error) if isinstance(error, errors.RequestError) else f"{type(error).__name__}: {error}"
    return errors.MalformedReplyError(f"the reply does not follow the protocol: {reason}", provider=provider)


def malformed_request(provider: str, error: Exception) -> errors.RequestError:
    """Return the error for a request of a client that another error shows to be malformed."""
    missing = f"the field {error} is missing" if isinstance(error, KeyError) else "a field has another type"
    return errors.RequestError(f"this is not a request in the format of {provider}: {missing}")


def typed_fields(native: Mapping[str, Any], classes: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of an error object that have the class that their API gives them."""
    return {name: native[name] for name, kind in classes.items() if isinstance(native.get(name), kind)}


def _mask_values(value: Any) -> Any:
    """Return JSON whose texts show no key. It was parsed, so it is not nested too deeply for this."""
    match value:
        case str():
            return errors.mask_secrets(value)
        case dict():
            return {errors.mask_secrets(name): _mask_values(each) for name, each in value.items()}
        case list():
            return [_mask_values(each) for each in value]
    return value


def _request_id(headers: Mapping[str, str]) -> str | None:
    return next((value for name in REQUEST_ID_HEADERS if (value := headers.get(name))), None)


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds to wait: retry-after-ms, then retry-after as seconds or as an HTTP date.

    A wait of 0 is ignored if the other header has a value: some servers round down to 0. None if there is no such
    header or its value is not a time (NaN, infinite, negative, garbage).
    """
    waits: list[float] = []
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                moment = parsedate_to_datetime(value)
            except (ValueError, TypeError, OverflowError):
                continue
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
        if math.isfinite(seconds) and seconds >= 0:
            waits.append(seconds)
    return next(filter(None, waits), waits[0] if waits else None)
