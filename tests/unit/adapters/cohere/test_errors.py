"""What Cohere's errors mean."""

import json

import pytest

from dragoman.adapter import errors
from tests.unit.adapters.cohere.wire import ADAPTER, MODEL

MEANINGS = [
    (400, "invalid request: message must be at least 1 token long", errors.InvalidRequestError),
    (400, "too many tokens: size limit exceeded by 42 tokens", errors.ContextOverflowError),
    (400, "blocked output: please adjust your prompt", errors.ContentFilterError),
    (401, "invalid api token", errors.AuthenticationError),
    (402, "add a payment method", errors.BillingError),
    (404, "model 'x' not found", errors.NotFoundError),
    (429, "You are past the per minute request limit", errors.RateLimitError),
    (498, "invalid token", errors.AuthenticationError),
    (499, "request cancelled", errors.RequestCancelledError),
    (500, "internal server error", errors.ServerError),
    (503, "service unavailable", errors.OverloadedError),
    (504, "gateway timeout", errors.RequestTimeoutError),
]


@pytest.mark.parametrize(("status", "message", "kind"), MEANINGS)
def test_statuses_and_messages_are_classified(status: int, message: str, kind: type[errors.ProviderError]) -> None:
    """The class is exact, and the error names the provider and the request."""
    error = ADAPTER.error(status, json.dumps({"id": "e_1", "message": message}).encode(), {})
    assert type(error) is kind
    assert (error.status, error.provider, error.model, error.request_id) == (status, "cohere", MODEL, "e_1")
    assert message in error.message


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 3}', b"\xff"])
def test_any_body_gives_an_error(body: bytes) -> None:
    """Reading an error never fails."""
    assert type(ADAPTER.error(500, body, {})) is errors.ServerError
