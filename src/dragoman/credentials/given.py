"""Credentials that a program hands over: a function, an object of a cloud's library, or a source of its own."""

from functools import partial
from typing import Any, Self

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.forks import ProcessLock
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.functions import (
    from_command,
    from_file,
    from_function,
    from_result,
    from_variable,
    is_async_function,
)

ACCEPTED = (
    "a function that returns a key, Credentials, a credential of azure-core, google.auth credentials, or a session of"
    " botocore or boto3"
)
_METHODS = ("authorize", "get_token", "get_credentials")


class GivenCredentials:
    """One object, which all transports of a client share: it is asked once for all their requests."""

    __slots__ = ("__weakref__", "_by_scope", "_lock", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._by_scope: dict[str, CachedCredentials] = {}
        self._lock = ProcessLock()

    @classmethod
    def wrap(cls, value: Any) -> Self:
        return value if isinstance(value, cls) else cls(value)

    def __repr__(self) -> str:
        return f"GivenCredentials({type(self._value).__name__})"

    def __reduce__(self) -> Any:
        """Hand over the object alone: the workers of a cluster fetch for themselves."""
        return GivenCredentials, (self._value,)

    def for_scope(self, scope: str) -> CachedCredentials:
        """Return the credentials for the scope or service of an endpoint."""
        with self._lock:
            if scope not in self._by_scope:
                self._by_scope[scope] = _read(self._value, scope)
            return self._by_scope[scope]


def is_accepted(value: Any) -> bool:
    """Whether a value can be the source of credentials. It is not called."""
    if isinstance(value, (type, str, bytes)):
        return False
    return callable(value) or any(callable(getattr(value, name, None)) for name in _METHODS) or _is_google(value)


def _read(value: Any, scope: str) -> CachedCredentials:
    package = type(value).__module__.partition(".")[0]
    if isinstance(value, partial) and value.func in (from_command, from_file, from_variable):
        named: CachedCredentials = value()  # a place of the configuration file
        return named
    if callable(authorize := getattr(value, "authorize", None)):
        return from_result(
            lambda renew: authorize(renew=renew),
            type(value).__name__,
            is_async=is_async_function(authorize),
            max_age=None,
        )
    if _is_google(value):
        from dragoman.credentials import google

        return google.credentials(scope, {}, value)
    if callable(getattr(value, "get_credentials", None)):
        from dragoman.credentials import aws

        return aws.credentials(scope, {}, value)
    if callable(getattr(value, "get_token", None)):
        if package == "openai":
            return _from_openai(value)
        from dragoman.credentials import azure

        return azure.from_credential(value, scope)
    if not callable(value):
        raise ConfigurationError(f"credentials must be {ACCEPTED}, not a value of the class {type(value).__name__}")
    return from_function(value)


def _is_google(value: Any) -> bool:
    return any(kind.__module__ == "google.auth.credentials" for kind in type(value).__mro__)


def _from_openai(workload: Any) -> CachedCredentials:
    """Return the credentials of openai's WorkloadIdentityAuth, which keeps its token and renews it."""

    def fetch(renew: bool) -> Any:
        if renew:
            workload.invalidate_token()
        return workload.get_token()

    return from_result(fetch, "OpenAI's workload identity")
