"""Errors in the words of a client's wire: each class has its status and its body, and the client reads its class."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import RequestContext, get_adapter
from dragoman.errors import (
    AuthenticationError,
    BillingError,
    BudgetExceededError,
    ContentFilterError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    MalformedReplyError,
    MissingKeyError,
    NetworkError,
    NoModelError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    UnclassifiedError,
    UnexpectedPageError,
)
from dragoman.events import StreamEvent

WIRES = ("anthropic", "openai-chat", "openai", "google", "ollama")
STATUSES: dict[type[ProviderError], tuple[int, int, int, int, int]] = {
    InvalidRequestError: (400, 400, 400, 400, 400),
    ContextOverflowError: (400, 400, 400, 400, 400),
    AuthenticationError: (401, 401, 401, 401, 401),
    PermissionDeniedError: (403, 403, 403, 403, 403),
    BillingError: (402, 429, 429, 429, 402),
    NotFoundError: (404, 404, 404, 404, 404),
    RateLimitError: (429, 429, 429, 429, 429),
    OverloadedError: (529, 503, 503, 503, 503),
    ServerError: (500, 500, 500, 500, 500),
    NetworkError: (502, 502, 502, 502, 502),
    StreamTruncatedError: (502, 502, 502, 502, 502),
    RequestTimeoutError: (504, 504, 504, 504, 504),
    ContentFilterError: (400, 400, 400, 400, 400),
    MalformedReplyError: (502, 502, 502, 502, 502),
    UnclassifiedError: (502, 502, 502, 502, 502),
}
"""The status of each class on the wires, in the order of WIRES."""
_SAME_CLASS = (InvalidRequestError, ContextOverflowError, AuthenticationError, PermissionDeniedError, NotFoundError,
               RateLimitError, OverloadedError, ServerError)  # fmt: skip
"""Classes that every wire has a word for."""


def answer(wire: str, error: DragomanError) -> tuple[int, dict[str, Any], dict[str, str]]:
    context = RequestContext(model="mistral:m", request_id="req_1")
    written = get_adapter(f"{wire}:client").to_wire_response(error, context)
    return written.status, json.loads(written.body), dict(written.headers)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", STATUSES)
def test_each_class_has_its_status(wire: str, kind: type[ProviderError]) -> None:
    """Whatever status the provider behind had. How a reply was read is nothing that a client can use."""
    status, body, headers = answer(wire, kind("what happened", provider="mistral", status=418))
    assert status == STATUSES[kind][WIRES.index(wire)]
    sentence = "the reply of mistral is not what its API promises"
    assert (sentence if kind is MalformedReplyError else "what happened") in json.dumps(body)
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", _SAME_CLASS)
def test_the_client_reads_the_same_class(wire: str, kind: type[ProviderError]) -> None:
    """Retries and the client's own reactions depend on it."""
    adapter = get_adapter(f"{wire}:client")
    written = adapter.to_wire_response(kind("what happened", provider="mistral"), RequestContext(model="mistral:m"))
    assert type(adapter.error(written.status, written.body, written.headers)) is kind


@pytest.mark.parametrize("wire", WIRES)
def test_the_wait_is_passed_on(wire: str) -> None:
    """The wait is passed on, in whole seconds: some clients read nothing else."""
    _, _, headers = answer(wire, RateLimitError("slow down", retry_after=1.2))
    assert headers["retry-after"] == "2"


@pytest.mark.parametrize("wire", WIRES)
def test_a_spent_budget_is_not_retried(wire: str) -> None:
    status, _, headers = answer(wire, BudgetExceededError("team", "usd", 1, 1, 1))
    assert status in (402, 429)
    assert headers["x-should-retry"] == "false"


@pytest.mark.parametrize("wire", WIRES)
def test_internal_errors_say_nothing(wire: str) -> None:
    """A missing setting concerns who runs the program; a wrong argument concerns the client."""
    status, body, _ = answer(wire, MissingKeyError("set ANTHROPIC_API_KEY"))
    assert status == 500
    assert "ANTHROPIC" not in json.dumps(body)
    assert answer(wire, RequestError("no such option"))[0] == 400
    assert answer(wire, NoModelError([]))[0] == 404


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("prompt is too long: 9000 tokens > 8192 maximum", "prompt is too long: 9000 tokens > 8192 maximum"),
        ("This model's maximum context length is 8,192 tokens. Your messages resulted in 9,000 tokens.",
         "prompt is too long: 9000 tokens > 8192 maximum"),
        ("too much", "prompt is too long: too much"),
    ],
)  # fmt: skip
def test_claude_code_recognises_an_overflow(message: str, expected: str) -> None:
    """It compacts the conversation only for these words."""
    status, body, _ = answer("anthropic", ContextOverflowError(message))
    assert (status, body["error"]["message"]) == (400, expected)
    assert body["type"] == "error"
    assert body["request_id"] == "req_1"


def test_codex_reads_the_code() -> None:
    _, body, headers = answer("openai", ContextOverflowError("too much"))
    assert body["error"]["code"] == "context_length_exceeded"
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert headers["x-request-id"] == "req_1"


def test_an_error_of_the_own_wire_keeps_its_status_and_code() -> None:
    error = InvalidRequestError("bad", provider="openai-chat", status=422, code="odd_code", request_id="req_9")
    status, body, headers = answer("openai-chat", error)
    assert (status, body["error"]["code"], headers["x-request-id"]) == (422, "odd_code", "req_9")


@pytest.mark.parametrize("wire", ["openai-chat", "openai"])
def test_an_error_of_openai_keeps_its_type_and_the_name_of_the_parameter(wire: str) -> None:
    """Some clients leave out the parameter that the error names, and ask again. A key in them is masked."""
    native = {"message": "no", "type": "tokens", "param": "max_tokens", "code": "unsupported_parameter"}
    error = get_adapter(f"{wire}:client").error(400, json.dumps({"error": native}).encode(), {})
    assert answer(wire, error)[1]["error"] == native
    assert answer("anthropic", error)[1]["error"].keys() == {"type", "message"}
    assert pickle.loads(pickle.dumps(error)).own_fields == {"type": "tokens", "param": "max_tokens"}
    leaking = json.dumps({"error": {**native, "param": "sk-secret0123456789"}}).encode()
    assert "secret" not in json.dumps(answer(wire, get_adapter(f"{wire}:client").error(400, leaking, {}))[1])


def broken_by(error: ProviderError) -> Iterator[StreamEvent]:
    """A stream in which the provider reports an error before its reply begins."""
    yield from ()
    raise error


DETAILED: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "error",
        "error": {
            "type": "conflict_error",
            "message": "these files are in use",
            "details": {"error_code": "file_in_use", "file_ids": ["file_1"]},
        },
        "request_id": "req_9",
    },
    "google": {
        "error": {
            "code": 400,
            "message": "the billing account is closed",
            "status": "FAILED_PRECONDITION",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "PerDay"}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
            ],
        }
    },
}


@pytest.mark.parametrize("wire", DETAILED)
def test_an_error_of_the_own_wire_keeps_its_details(wire: str) -> None:
    """SDKs choose their class by them, and agents how long they wait. A key in them is masked, at any depth."""
    native, adapter = DETAILED[wire], get_adapter(f"{wire}:client")
    error = adapter.error(400, json.dumps(native).encode(), {})
    assert answer(wire, error)[1] == native
    assert answer("openai-chat", error)[1]["error"].keys() == {"message", "type", "param", "code"}
    stream = b"".join(adapter.iter_encoded(broken_by(error), RequestContext(model="mistral:m")))
    assert json.dumps(native["error"]["details"], separators=(",", ":")).encode() in stream
    leaking = json.dumps(native).replace("file_1", "sk-secret0123456789").replace("PerDay", "sk-secret0123456789")
    assert "secret" not in json.dumps(answer(wire, adapter.error(400, leaking.encode(), {}))[1])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("kind", "status"), [(UnexpectedPageError, 200), (UnclassifiedError, 302)])
def test_no_error_has_a_status_that_looks_like_success(wire: str, kind: type[ProviderError], status: int) -> None:
    """A page, or a redirect, in place of a reply: SDKs return the body of a 200 as the answer."""
    assert answer(wire, kind("log in first", provider=wire, status=status))[0] == 502
