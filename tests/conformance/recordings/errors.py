"""Replies that are errors: by status, in a body with status 200, or in mid-stream."""

from collections.abc import Iterator

from dragoman import DragomanError
from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings import replies
from tests.conformance.recordings.oracle.expected import Failure, error_texts
from tests.exchanges import RecordedExchange

_BY_WORD: tuple[tuple[str, frozenset[str]], ...] = (
    ("insufficient_quota", frozenset({"BillingError", "RateLimitError"})),
    ("billing_error", frozenset({"BillingError"})),
    ("credit balance", frozenset({"BillingError"})),
    ("context_length_exceeded", frozenset({"ContextOverflowError"})),
    ("exceeds the maximum number of tokens", frozenset({"ContextOverflowError"})),
    ("prompt is too long", frozenset({"ContextOverflowError"})),
    ("too_many_prompt_tokens", frozenset({"ContextOverflowError"})),
    ("maximum context", frozenset({"ContextOverflowError"})),
    ("request_too_large", frozenset({"ContextOverflowError"})),
    ("content_filter", frozenset({"ContentFilterError"})),
    ("content_policy_violation", frozenset({"ContentFilterError"})),
    ("authentication_error", frozenset({"AuthenticationError"})),
    ("invalid_api_key", frozenset({"AuthenticationError"})),
    ("incorrect api key", frozenset({"AuthenticationError"})),
    ("api_key_invalid", frozenset({"AuthenticationError"})),
    ("permission_error", frozenset({"PermissionDeniedError"})),
    ("model_not_found", frozenset({"NotFoundError"})),
    ("not_found_error", frozenset({"NotFoundError"})),
    ("overloaded_error", frozenset({"OverloadedError"})),
    ("rate_limit", frozenset({"RateLimitError"})),
    ("timeout_error", frozenset({"RequestTimeoutError", "ServerError"})),
    ("api_error", frozenset({"ServerError"})),
    ("server_error", frozenset({"ServerError"})),
)
"""The classes that a provider's own word requires; the first word that occurs decides."""

_BY_STATUS: dict[int, frozenset[str]] = {
    401: frozenset({"AuthenticationError"}),
    402: frozenset({"BillingError"}),
    403: frozenset({"PermissionDeniedError"}),
    404: frozenset({"NotFoundError"}),
    408: frozenset({"RequestTimeoutError"}),
    413: frozenset({"ContextOverflowError"}),
    429: frozenset({"RateLimitError"}),
    499: frozenset({"RequestCancelledError"}),
    503: frozenset({"OverloadedError", "ServerError"}),
    529: frozenset({"OverloadedError"}),
}
_REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-generation-id", "mistral-correlation-id", "x-amzn-requestid")


def acceptable_classes(status: int | None, texts: tuple[str, ...], *, truncated: bool = False) -> frozenset[str]:
    """The names of acceptable error classes; empty if nothing is known and any class is accepted."""
    if truncated:
        return frozenset({"StreamTruncatedError"})
    text = " ".join(texts).lower()
    for word, classes in _BY_WORD:
        if word in text:
            return classes
    if status is None or status < 400:
        return frozenset()
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return frozenset({"ServerError"}) if status >= 500 else frozenset({"InvalidRequestError"})


def judge(exchange: RecordedExchange, failure: Failure | None) -> Outcome:
    """An exchange with status 400 or more, or one in whose body the oracle found a failure."""
    return Outcome(exchange, Aspect.ERROR, tuple(_differences(exchange, failure)))


def _differences(exchange: RecordedExchange, failure: Failure | None) -> Iterator[Difference]:
    try:
        error = replies.decode(exchange)
    except Exception as other:
        yield Difference(f"raised {type(other).__name__}", str(other))
        return
    if not isinstance(error, DragomanError):
        yield Difference("taken for a reply", error.id)
        return
    status = exchange.status if exchange.status >= 400 else None
    texts = error_texts(exchange.response) if failure is None else failure.error_texts
    classes = acceptable_classes(status, texts, truncated=failure is not None and failure.truncated)
    if classes and type(error).__name__ not in classes:
        yield Difference("class", f"{' or '.join(sorted(classes))} -> {type(error).__name__} {error}")
    if status is not None and getattr(error, "status", None) != status:
        yield Difference("status", f"{status} -> {getattr(error, 'status', None)}")
    ids = _request_ids(exchange)
    if ids and getattr(error, "request_id", None) not in ids:
        yield Difference("request_id", f"{ids} -> {getattr(error, 'request_id', None)}")
    wait = exchange.headers.get("retry-after")
    if wait is not None and wait.isdigit() and getattr(error, "retry_after", None) != float(wait):
        yield Difference("retry_after", f"{wait} -> {getattr(error, 'retry_after', None)}")


def _request_ids(exchange: RecordedExchange) -> list[str]:
    found = [exchange.headers[name] for name in _REQUEST_ID_HEADERS if name in exchange.headers]
    if isinstance(exchange.response, dict) and isinstance(exchange.response.get("request_id"), str):
        found.append(exchange.response["request_id"])
    return found
