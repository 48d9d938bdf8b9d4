"""What Bedrock's errors mean by HTTP."""

import json

import pytest

from dragoman.adapter import errors
from dragoman_adapters.bedrock.adapter import BedrockAdapter
from tests.unit.adapters.bedrock.wire import CLAUDE

ADAPTER = BedrockAdapter(CLAUDE)

NAMED = [
    (400, "ValidationException", errors.InvalidRequestError),
    (400, "ServiceQuotaExceededException", errors.RateLimitError),
    (403, "AccessDeniedException", errors.PermissionDeniedError),
    (403, "UnrecognizedClientException", errors.AuthenticationError),
    (403, "ExpiredTokenException", errors.AuthenticationError),
    (403, "InvalidSignatureException", errors.AuthenticationError),
    (404, "ResourceNotFoundException", errors.NotFoundError),
    (408, "ModelTimeoutException", errors.RequestTimeoutError),
    (424, "ModelErrorException", errors.ServerError),
    (429, "ThrottlingException", errors.RateLimitError),
    (429, "ModelNotReadyException", errors.OverloadedError),
    (500, "InternalServerException", errors.ServerError),
    (503, "ServiceUnavailableException", errors.OverloadedError),
    (418, "TeapotException", errors.InvalidRequestError),
]


@pytest.mark.parametrize(("status", "name", "kind"), NAMED)
def test_an_exception_is_classified_by_name(status: int, name: str, kind: type[errors.ProviderError]) -> None:
    """An exception is classified by name, in the header, with or without an address after it, or in the body."""
    body = json.dumps({"message": "No."}).encode()
    headers = {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/", "x-amzn-requestid": "r_1"}
    error = ADAPTER.error(status, body, headers)
    assert type(error) is kind
    assert (error.status, error.code, error.request_id, error.message) == (status, name, "r_1", "No.")
    body = json.dumps({"__type": f"com.amazon.coral.service#{name}", "Message": "No."}).encode()
    error = ADAPTER.error(status, body, {})
    assert (type(error), error.code, error.message) == (kind, name, "No.")


UNNAMED = [
    (400, "The provided model identifier is invalid.", errors.InvalidRequestError),
    (400, "Input is too long for requested model.", errors.ContextOverflowError),
    (403, "You don't have access to the model with the specified model ID.", errors.PermissionDeniedError),
    (424, "The model failed.", errors.ServerError),
    (429, "Too many tokens, please wait before trying again.", errors.RateLimitError),
    (502, "Bad gateway", errors.ServerError),
]


@pytest.mark.parametrize(("status", "message", "kind"), UNNAMED)
def test_without_a_name_status_and_message_decide(status: int, message: str, kind: type[errors.ProviderError]) -> None:
    """The status and the message decide if a proxy drops the header."""
    assert type(ADAPTER.error(status, json.dumps({"message": message}).encode(), {})) is kind


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 3, "__type": 4}', b"\xff"])
def test_any_body_gives_an_error(body: bytes) -> None:
    """Reading an error never fails."""
    assert type(ADAPTER.error(500, body, {})) is errors.ServerError
