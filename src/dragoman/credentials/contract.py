"""Proof of identity for a provider: a key, headers or a signature, and how long it is valid."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, NoReturn, Protocol

from dragoman.credentials.api_key import ApiKey


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
