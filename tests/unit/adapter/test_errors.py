"""Errors: the tree as drawn, their messages, and what messages never contain."""

import pickle
import re
from collections.abc import Iterator
from decimal import Decimal

import pytest

from dragoman.adapter import errors
from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    BudgetExceededError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    NoModelError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    RequestTimeoutError,
    ServerError,
    SwapRefusedError,
    ToolSchemaError,
    UnclassifiedError,
    UnpricedModelError,
    mask_secrets,
)
from dragoman.adapter.replies.error_context import class_for_status
from tests.tables import each_row


def parse_drawn_tree() -> dict[str, str]:
    """Each class of the drawing with its base class."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"([│├└─ ]*)(\w+Error)\b", line):
            depth, name = len(match[1]), match[2]
            while above and above[-1][0] >= depth:
                above.pop()
            if above:
                found[name] = above[-1][1]
            above.append((depth, name))
    return found


def classes(root: type[DragomanError]) -> Iterator[type[DragomanError]]:
    for kind in root.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from classes(kind)


def test_the_error_tree_matches_its_drawing() -> None:
    """The drawing in the docstring names every class, under the class that it derives from."""
    assert parse_drawn_tree() == {
        kind.__name__: kind.__base__.__name__ for kind in classes(DragomanError) if kind.__base__
    }


def samples() -> Iterator[DragomanError]:
    for kind in classes(DragomanError):
        if kind is ToolSchemaError:
            yield ToolSchemaError("f", ["$: a", "$: b"])
        elif kind is SwapRefusedError:
            yield SwapRefusedError("a:b", ["too long", "no tools"])
        elif kind is BudgetExceededError:
            yield BudgetExceededError("user", "usd", Decimal("2.5"), Decimal("2.4"), Decimal("0.2"))
        elif kind is NoModelError:
            yield NoModelError([("a:b", "rule", (("no_tool_support", "the turn offers tools"),))])
        elif kind is UnpricedModelError:
            yield UnpricedModelError("a:b", "turn")
        elif issubclass(kind, ProviderError):
            yield kind("no", provider="a", model="b", status=429, code="c", request_id="r", retry_after=1.5)
        else:
            yield kind("no")


@each_row("error", list(samples()), ids=lambda error: type(error).__name__)
def test_every_error_can_be_pickled(error: DragomanError) -> None:
    error.add_note("seen")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError), (401, AuthenticationError), (402, BillingError), (403, PermissionDeniedError),
        (404, NotFoundError), (408, RequestTimeoutError), (409, InvalidRequestError), (413, ContextOverflowError),
        (422, InvalidRequestError), (429, RateLimitError), (499, RequestCancelledError), (500, ServerError),
        (502, ServerError), (503, OverloadedError), (504, ServerError), (529, OverloadedError), (599, ServerError),
        (302, UnclassifiedError), (200, UnclassifiedError),
    ],
)  # fmt: skip
def test_a_status_has_its_class(status: int, kind: type[ProviderError]) -> None:
    assert class_for_status(status) is kind


@pytest.mark.parametrize(
    ("kind", "word", "retryable"),
    [
        (RateLimitError, "rate_limit", True), (OverloadedError, "rate_limit", True),
        (AuthenticationError, "auth", False),
        (PermissionDeniedError, "auth", False), (BillingError, "auth", False), (ServerError, "server_error", True),
        (errors.NetworkError, "network", True), (RequestTimeoutError, "network", True),
        (errors.StreamTruncatedError, "network", True), (ContextOverflowError, "context_overflow", False),
        (InvalidRequestError, "invalid_request", False), (NotFoundError, "invalid_request", False),
        (errors.ContentFilterError, "invalid_request", False), (RequestCancelledError, "cancelled", False),
        (errors.MalformedReplyError, "other", False), (UnclassifiedError, "other", False),
    ],
)  # fmt: skip
def test_a_class_has_its_error_word(kind: type[ProviderError], word: str, retryable: bool) -> None:
    """The error class (docs/reference/contract.md#errors), and whether the same request may succeed later."""
    assert (kind.error_class, kind.retryable) == (word, retryable)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ServerError("down"), "down"),
        (ServerError("down", provider="openai", status=500), "openai: down (status 500)"),
        (RateLimitError("slow", code="rpm", request_id="r1", retry_after=2.0),
         "slow (code rpm, request r1, retry after 2 s)"),
        (RateLimitError("slow", retry_after=0.0), "slow (retry after 0 s)"),
        (ToolSchemaError("f", ["$: a", "$.x: b"]), "the tool 'f' cannot be registered:\n  $: a\n  $.x: b"),
        (SwapRefusedError("a:b", ["it is too long", "it has images: no_vision_support"]),
         "the session cannot move to a:b, because it is too long, and it has images (no_vision_support)"),
    ],
)  # fmt: skip
def test_an_error_shows_only_what_it_knows(error: DragomanError, expected: str) -> None:
    """Unknown facts are left out."""
    assert str(error) == expected


SECRETS = (
    "sk-abcdefghijklmnop", "sk-proj-AbC_123-xyz", "sk-ant-api03-AbCdEf-123456", "sk-or-v1-0123456789abcdef",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv", "Bearer abcdefgh12345678", "bearer abc.def-ghi_jkl",
    "xai-abcdefgh12345678", "gsk_abcdefgh12345678", "hf_abcdefghijklmnop", "pplx-0123456789ab", "csk-0123456789ab",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "nvapi-0123456789abcdef", "r8_0123456789abcdef",
    "ghp_0123456789abcdef", "github_pat_0123456789_abc", "fw_0123456789abcdef", "glpat-0123456789abc",
    "AKIAIOSFODNN7EXAMPLE", "ya29.a0AfH6SMBx-0123456789", "Basic dXNlcjpwYXNzd29yZA==", "sk-abc***************xyz",
)  # fmt: skip
AROUND = ("{}", "Incorrect API key provided: {}.", "({})", "key={}&x=1", '{{"key": "{}"}}', "a\n{}\nb")


@each_row("secret", SECRETS)
@each_row("around", AROUND)
def test_keys_are_masked_everywhere(secret: str, around: str) -> None:
    """Every shape of key that a provider hands out, in every place where one is quoted."""
    masked = mask_secrets(around.format(secret))
    assert "***" in masked
    assert secret not in masked
    for length in range(8, len(secret)):
        assert secret[-length:] not in masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("api-key: 0123456789abcdef0123456789abcdef", "api-key: ***"),
        ('"api_key": "0123456789abcdef"', '"api_key": "***"'),
        ("password=correct.horse.battery", "password=***"),
        ("x-goog-api-key: 0123456789abcdefghij", "x-goog-api-key: ***"),
    ],
)
def test_named_secrets_are_masked(text: str, masked: str) -> None:
    """Keys without a known format are found by their name."""
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the model task_identifier does not exist", "risk-assessment-model", "disk_quota_exceeded", "max_tokens: 4096",
        "basic authentication failed", "tokens: 123456", "asking-for-more", "The model `gpt-6-sk` is busy",
    ],
)  # fmt: skip
def test_plain_words_are_not_masked(text: str) -> None:
    """A message without a key stays readable."""
    assert mask_secrets(text) == text


def test_messages_are_bounded() -> None:
    """A page of HTML as an error body does not become the message."""
    assert len(mask_secrets("x" * 10_000_000)) == 601
    secret = "sk-ant-" + "a" * 50
    assert secret[:20] not in mask_secrets("x" * 590 + " " + secret)


def test_provider_messages_are_masked_everywhere() -> None:
    """Provider messages are masked everywhere, in the message and in the code, in str and in repr."""
    error = AuthenticationError("bad key sk-abcdefghijkl", code="key sk-abcdefghijkl is unknown")
    assert "abcdefghijkl" not in f"{error} {error!r} {error.message} {error.code}"
