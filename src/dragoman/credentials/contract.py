"""Proof of identity for a provider: a key, headers or a signature, and how long it is valid."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, NoReturn, Protocol

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.known_keys import MIN_SECRET_LENGTH, remember_key

CLOUD_IDENTITY: Mapping[str, tuple[str, ...]] = {
    "aws": ("profile", "role_arn"),
    "google": ("credentials_file", "impersonate"),
    "azure": ("tenant", "client_id", "managed_identity"),
    "anthropic": (),
}
"""The settings that choose who asks, by the kind of credentials."""
CLOUD_PLACE: Mapping[str, tuple[str, ...]] = {
    "aws": ("region",), "google": ("project", "location"), "azure": (), "anthropic": (),
}  # fmt: skip
"""Those that complete the address."""
IDENTITY_SETTINGS = frozenset(name for names in CLOUD_IDENTITY.values() for name in names)
CLOUD_SETTINGS = IDENTITY_SETTINGS | {name for names in CLOUD_PLACE.values() for name in names}

UNUSABLE_KEY = "is empty or holds characters that no key can have (blanks, line ends, non-ASCII)"
"""What is wrong with a key that is not usable."""
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class ApiKey:
    """A key that is not shown in a repr, a log line or a pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value.strip()
        remember_key(self._value)

    @classmethod
    def wrap(cls, key: "str | ApiKey") -> "ApiKey":
        """Return the key, wrapped if it is a text."""
        return key if isinstance(key, ApiKey) else cls(key)

    @property
    def is_usable(self) -> bool:
        """Whether it has only characters that a key can have."""
        return _PRINTABLE.fullmatch(self._value) is not None

    def reveal(self) -> str:
        """Return the key as text. Only code that writes a request should need it."""
        return self._value

    def mask(self, text: str) -> str:
        """Return the text without the key. Short keys stay, because keys of local servers are often made-up words."""
        return text if len(self._value) < MIN_SECRET_LENGTH else text.replace(self._value, "***")

    def __repr__(self) -> str:
        return "ApiKey(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled: pass it again")


def mask_bytes(key: ApiKey | None, body: bytes) -> bytes:
    """Return a body without the key: some providers repeat it in theirs."""
    return body if key is None else key.mask(body.decode("latin-1")).encode("latin-1")


def validate_key(key: ApiKey, source: str) -> ApiKey:
    """Return the key. Raises ConfigurationError, which names its source, if no key can look like that."""
    if not key.is_usable:
        raise ConfigurationError(f"{source} {UNUSABLE_KEY}")
    return key


class SignableRequest(NamedTuple):
    """A request as it is sent, without its credential."""

    method: str
    """The HTTP method, in upper case."""
    url: str
    """The full URL with its query."""
    headers: Mapping[str, str]
    """The headers that will be sent, without the credential."""
    body: bytes
    """The bytes of the body, which signatures cover."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Authorization:
    """What requests carry for a time. It has no repr and cannot be pickled: it holds secrets.

    ``key`` is sent as the provider's API keys are. ``headers`` are added to each request. ``sign`` returns further
    headers for one request, and may replace some. ``expires_at`` is aware of its time zone; None if nothing says when.
    """

    key: ApiKey | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sign: Callable[[SignableRequest], Mapping[str, str]] | None = None
    expires_at: datetime | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """What is known with the credentials and completes an address, such as AWS_REGION."""
    source: str = ""
    """The source of the credentials in a few words, without a secret."""

    def __repr__(self) -> str:
        return "Authorization(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an authorization cannot be pickled: fetch it again")


class Credentials(Protocol):
    """A source of authorizations. ``authorize`` may be a normal or an ``async`` method.

    It is called when there is no authorization or the last one expires soon, once for all requests that wait; a normal
    method is called in a thread of its own. ``renew``: the provider refused the last one before its time, so a cached
    one does not help.
    """

    def authorize(self, *, renew: bool) -> Authorization | Awaitable[Authorization]: ...


Fetch = Callable[[bool], Authorization | Awaitable[Authorization]]
"""Do what `Credentials.authorize` does, called with ``renew``."""
