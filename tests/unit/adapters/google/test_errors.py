"""Errors in Google's form. Bodies are handwritten, after google.rpc.Status."""

import json
from typing import Any

import pytest

from dragoman import WireResponse
from dragoman.adapter import errors
from tests.unit.adapters.google.wire import GEMINI_3, context


def raise_error(status: int, body: bytes, **headers: str) -> errors.ProviderError:
    with pytest.raises(errors.ProviderError) as caught:
        GEMINI_3.from_wire_response(WireResponse(status=status, body=body, headers=headers), context(GEMINI_3))
    return caught.value


def handwritten_status(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "status": status, "details": details}}).encode()


@pytest.mark.parametrize(
    ("code", "status", "message", "kind"),
    [
        (400, "INVALID_ARGUMENT", "Invalid value at 'contents'", errors.InvalidRequestError),
        (400, "FAILED_PRECONDITION", "User location is not supported", errors.InvalidRequestError),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).",
         errors.ContextOverflowError),
        (401, "UNAUTHENTICATED", "Expected OAuth 2 access token", errors.AuthenticationError),
        (403, "PERMISSION_DENIED", "Permission denied", errors.PermissionDeniedError),
        (404, "NOT_FOUND", "models/x is not found", errors.NotFoundError),
        (429, "RESOURCE_EXHAUSTED", "Quota exceeded", errors.RateLimitError),
        (499, "CANCELLED", "Cancelled", errors.RequestCancelledError),
        (500, "INTERNAL", "An internal error has occurred", errors.ServerError),
        (503, "UNAVAILABLE", "The model is overloaded", errors.OverloadedError),
        (504, "DEADLINE_EXCEEDED", "Deadline expired", errors.ServerError),
    ],
)  # fmt: skip
def test_every_status_has_its_class(code: int, status: str, message: str, kind: type[errors.ProviderError]) -> None:
    """Every status has its class by the status name, as an HTTP body and as a list with one element."""
    body = handwritten_status(code, status, message)
    for form in (body, b"[" + body + b"]"):
        error = raise_error(code, form)
        assert type(error) is kind
        assert (error.status, error.code, error.message) == (code, status, message)


def test_an_invalid_key_is_an_authentication_error() -> None:
    """Google answers 400; the reason in the body is more precise."""
    details = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    error = raise_error(400, handwritten_status(400, "INVALID_ARGUMENT", "API key not valid.", details))
    assert type(error) is errors.AuthenticationError
    assert error.code == "API_KEY_INVALID"


def test_the_retry_time_is_read_from_the_details() -> None:
    """In the details of the error; a header takes precedence."""
    details = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    body = handwritten_status(429, "RESOURCE_EXHAUSTED", "Slow down.", details)
    assert raise_error(429, body).retry_after == 34.5
    assert raise_error(429, body, **{"Retry-After": "7"}).retry_after == 7


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b'{"error": "no"}', b'{"error": {"details": "x"}}'])
def test_any_body_gives_a_typed_error(body: bytes) -> None:
    """Any body gives a typed error, also the bodies that proxies send."""
    assert type(raise_error(502, body)) is errors.ServerError


def test_an_error_under_status_200_is_an_error() -> None:
    """Its code replaces the status."""
    body = json.dumps({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}).encode()
    assert type(raise_error(200, body)) is errors.OverloadedError
