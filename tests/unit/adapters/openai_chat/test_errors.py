"""Errors in OpenAI's shapes, by HTTP."""

import json
from typing import Any, get_args

import pytest
from openai.types.responses.response_error import ResponseError

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    ContentFilterError,
    ContextOverflowError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnclassifiedError,
)
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman_adapters.openai_platform import errors
from tests.tables import each_row
from tests.unit.adapters.openai_chat.wire import adapter

CASES: list[tuple[int | None, Any, type[ProviderError]]] = [
    (
        400,
        {"error": {"message": "x", "type": "invalid_request_error", "code": "unsupported_value"}},
        InvalidRequestError,
    ),
    (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflowError),
    (400, {"error": {"message": "This model's maximum context length is 9 tokens."}}, ContextOverflowError),
    (400, {"code": "x", "error": "This model's maximum prompt length is 9 but it has 10."}, ContextOverflowError),
    (400, {"error": {"message": "Your request exceeded model token limit: 9"}}, ContextOverflowError),
    (400, {"error": {"message": "x", "type": "too_many_prompt_tokens", "code": 400}}, ContextOverflowError),
    (400, {"error": {"message": "x", "code": "content_policy_violation"}}, ContentFilterError),
    (400, {"error": {"message": "x", "code": "model_not_found"}}, NotFoundError),
    (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, AuthenticationError),
    (400, {"code": 400, "message": "Validation: x", "type": "Bad Request"}, InvalidRequestError),
    (401, {"error": {"message": "x", "type": "invalid_request_error", "code": "invalid_api_key"}}, AuthenticationError),
    (402, {"error": {"message": "x"}}, BillingError),
    (403, {"error": {"message": "x", "type": "permission_error"}}, PermissionDeniedError),
    (403, {"object": "error", "message": "blocked by a guardrail", "code": "1"}, ContentFilterError),
    (
        403,
        {"error": {"message": "moderated: your input was flagged", "code": 403}},
        ContentFilterError,
    ),
    (403, {"error": {"message": "no access to model x-moderation"}}, PermissionDeniedError),
    (404, {"error": {"code": "404", "message": "Resource not found"}}, NotFoundError),
    (404, {"error": "Specified model not found: x"}, NotFoundError),
    (408, {}, RequestTimeoutError),
    (413, {}, ContextOverflowError),
    (422, {"detail": [{"msg": "field required"}]}, InvalidRequestError),
    (429, {"error": {"message": "x", "type": "tokens", "code": "rate_limit_exceeded"}}, RateLimitError),
    (429, {"error": {"code": "RateLimitReached", "message": "x"}}, RateLimitError),
    (429, {"error": {"message": "x", "type": "insufficient_quota", "code": "insufficient_quota"}}, BillingError),
    (500, {"error": {"message": "x", "type": "server_error"}}, ServerError),
    (498, {"error": {"message": "x", "code": "capacity_exceeded"}}, OverloadedError),
    (503, {"error": {"message": "x", "code": "slow_down"}}, OverloadedError),
    (503, "<html>busy</html>", OverloadedError),
    (418, None, InvalidRequestError),
    (None, {"error": {"message": "x", "code": 503}}, OverloadedError),
    (None, {"error": {"message": "x", "type": "rate_limit_error"}}, RateLimitError),
    (None, {"error": {"message": "x"}}, UnclassifiedError),
    (None, {"error": {"message": "x", "code": "502"}}, ServerError),
    (None, {"error": {"message": "x", "code": "5020"}}, UnclassifiedError),
    (None, {"error": {"message": "x", "code": True}}, UnclassifiedError),
]


@each_row(("status", "body", "kind"), CASES)
def test_an_error_has_the_class_of_its_meaning(status: int | None, body: Any, kind: type[ProviderError]) -> None:
    """The code takes precedence over the status, the status over the type; only the text distinguishes some errors."""
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    error = adapter().error(status, raw, {"x-request-id": "req_1", "retry-after": "2"})
    assert type(error) is kind
    assert (error.provider, error.model, error.status, error.request_id) == ("openai-chat", "gpt-4.1", status, "req_1")
    assert error.retry_after == 2


def test_a_router_error_shows_the_providers_message() -> None:
    """The router's own text, "Provider returned error", is useless by itself."""
    inner = {
        "code": 429,
        "message": "Provider returned error",
        "metadata": {"provider_name": "Acme", "raw": "too fast"},
    }
    error = errors.decode_error({"error": inner}, ErrorContext("openrouter", None))
    assert error.message == "Provider returned error: Acme: too fast"
    assert error.code == "429"
    assert error.status is None


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[1]", b"\xff\xfe", b'{"error": 7}', b'{"error": {"message": {"a": 1}}}']
)
def test_any_body_gives_an_error(body: bytes) -> None:
    """Reading an error never fails."""
    assert isinstance(adapter().error(500, body, {}), ServerError)


@pytest.mark.parametrize("code", get_args(ResponseError.model_fields["code"].annotation))
def test_every_code_of_a_failed_response_has_a_class(code: str) -> None:
    error = errors.decode_error({"error": {"code": code, "message": "x"}}, ErrorContext("openai", None))
    assert type(error) is not UnclassifiedError
