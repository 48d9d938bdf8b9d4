"""Detects HTTP headers that carry a secret, by name. Source: docs/reference/cmf.md#headers."""

from collections.abc import Mapping

SENSITIVE_HEADERS = frozenset(
    {
        "authorization", "cookie", "x-api-key",  # the minimum that CMF requires
        "set-cookie", "set-cookie2", "proxy-authorization", "authentication-info", "proxy-authentication-info",
        "api-key", "x-goog-api-key", "x-amz-security-token", "x-amz-signature", "ocp-apim-subscription-key",
        "x-functions-key", "x-amzn-oidc-data", "x-amzn-oidc-accesstoken", "x-forwarded-client-cert", "dpop",
    }
)  # fmt: skip
"""Names in lower case. `is_sensitive` also recognises others by the words in their names."""

_SECRET_WORDS = frozenset(
    {
        "authorization", "auth", "apikey", "cookie", "token", "accesstoken", "secret", "password", "passwd",
        "passphrase", "credential", "credentials", "jwt", "signature", "session", "sessionid",
    }
)  # fmt: skip
_HARMLESS_KEYS = frozenset({"idempotency-key", "x-idempotency-key"})


def is_sensitive(name: str) -> bool:
    """Return True if the header's value is a secret. Case, surrounding space and underscores for dashes do not matter.

    Errs on the safe side: any name with a word such as token, or one that ends in key, counts as sensitive.
    """
    plain = name.strip().lower().replace("_", "-")
    if plain in SENSITIVE_HEADERS:
        return True
    words = plain.split("-")
    return not _SECRET_WORDS.isdisjoint(words) or (words[-1] == "key" and plain not in _HARMLESS_KEYS)


def drop_secret_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be sent to an outside engine or written to a log."""
    return {name: value for name, value in headers.items() if not is_sensitive(name)}
