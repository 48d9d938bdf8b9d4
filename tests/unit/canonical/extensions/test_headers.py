"""Headers: which of them are secret."""

import pytest

from dragoman.canonical.extensions.headers import drop_secret_headers, is_sensitive
from tests.tables import each_row

SECRET = [
    "Authorization", "COOKIE", "X-API-Key", "api-key", "x-goog-api-key", "Proxy-Authorization", "Set-Cookie",
    "X-Amz-Security-Token", "x_api_key", " authorization ", "X-Auth-Token", "X-CSRF-Token", "Private-Token",
    "Ocp-Apim-Subscription-Key", "X-Vault-Token", "X-Client-Secret", "x-forwarded-authorization", "X-Custom-Api-Key",
    "Cf-Access-Jwt-Assertion", "Set-Cookie2", "X-Hub-Signature",
]  # fmt: skip
PLAIN = [
    "Content-Type", "Accept", "X-Request-Id", "Idempotency-Key", "User-Agent", "traceparent", "anthropic-version",
    "x-ratelimit-remaining-tokens", "Keep-Alive", "X-Correlation-Id", "Host", "",
]  # fmt: skip


@each_row("name", SECRET)
def test_secret_headers_are_known_by_name(name: str) -> None:
    """The specification's three, the other usual ones, and new ones by words in their names."""
    assert is_sensitive(name)


@pytest.mark.parametrize("name", PLAIN)
def test_other_headers_are_shown(name: str) -> None:
    """A policy engine needs them."""
    assert not is_sensitive(name)


def test_secret_headers_are_left_out() -> None:
    """The others keep their order and case."""
    headers = {"B": "1", "Authorization": "x", "a": "2"}
    assert list(drop_secret_headers(headers).items()) == [("B", "1"), ("a", "2")]
