"""Functions, commands and files as credentials: each returns a key."""

import inspect
import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError, CredentialsError
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.contract import UNUSABLE_KEY, ApiKey, Authorization
from dragoman.private_files import read_secret

MAX_KEY_BYTES = 32_768
"""A longer key is a mistake: no server accepts such a header."""
_MAX_AGE = 60.0
"""Seconds after which a function or a file is asked again. Whoever hands one over renews the key there."""
_COMMAND_SECONDS = 30.0


def from_function(function: Callable[[], Any]) -> CachedCredentials:
    """Return the credentials of a function that returns a key, or an awaitable of it."""
    inner = _unwrap(function)
    name = f"the function {getattr(inner, '__qualname__', type(inner).__qualname__)}"
    return from_result(lambda renew: function(), name, is_async=is_async_function(function))


def from_result(
    call: Callable[[bool], Any], name: str, *, is_async: bool = False, **settings: Any
) -> CachedCredentials:
    """Return the credentials of a call whose result `read_result` reads."""
    settings.setdefault("max_age", _MAX_AGE)

    async def read_later(result: Any) -> Authorization:
        return read_result(await result, name)

    def fetch(renew: bool) -> Any:
        result = call(renew)
        return read_later(result) if inspect.isawaitable(result) else read_result(result, name)

    return CachedCredentials(fetch, name, is_async=is_async, **settings)


def read_result(result: Any, name: str) -> Authorization:
    """Return what a source has returned: an authorization, a key, or a token with the time of its end.

    Raises CredentialsError for anything else, and for a text that cannot be a key.
    """
    if isinstance(result, Authorization):
        return result
    expires_at = None
    token = getattr(result, "token", None)
    if isinstance(token, str) and not isinstance(result, (str, ApiKey)):  # azure-core's and anthropic's AccessToken
        seconds = getattr(result, "expires_on", None) or getattr(result, "expires_at", None)
        expires_at = None if not seconds else datetime.fromtimestamp(seconds, UTC)
        result = token
    if not isinstance(result, (str, ApiKey)):
        raise CredentialsError(f"{name} returned a value of the class {type(result).__name__}, not a key as a text")
    if isinstance(result, str) and len(result) > MAX_KEY_BYTES:
        raise CredentialsError(f"{name} returned a key of {len(result):,} characters: no server accepts one")
    key = ApiKey.wrap(result)
    if not key.is_usable:
        raise CredentialsError(f"{name} returned a key that {UNUSABLE_KEY}")
    return Authorization(key=key, expires_at=expires_at, source=name)


def from_command(command: Sequence[str], *, timeout: float = _COMMAND_SECONDS) -> CachedCredentials:
    """Return the credentials of a program that prints a key. It runs without a shell, and again after the key was
    refused."""
    name = f"the command {command[0]}"

    def run(renew: bool) -> str:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise CredentialsError(f"{name} did not end within {timeout:g} s") from None
        except OSError as error:
            raise ConfigurationError(f"{name} cannot be run: {error.strerror or type(error).__name__}") from None
        if done.returncode != 0:  # what it printed may hold a secret
            raise CredentialsError(f"{name} failed with exit code {done.returncode}: run it in a terminal")
        try:
            return done.stdout.decode().strip()
        except UnicodeDecodeError:
            raise CredentialsError(f"{name} printed bytes that are not a key") from None

    return from_result(run, name, max_age=None)


def from_variable(name: str) -> CachedCredentials:
    """Return the credentials of an environment variable with a key."""

    def read(renew: bool) -> str:
        if not (key := os.environ.get(name, "").strip()):
            raise ConfigurationError(f"the environment variable {name} is not set")
        return key

    return from_result(read, f"the environment variable {name}")


def from_file(path: Path) -> CachedCredentials:
    """Return the credentials of a file with a key, which is read again every minute: it may be renewed."""
    return from_result(lambda renew: read_secret(path).decode("latin-1").strip(), f"the file {path}")


def is_async_function(function: Any) -> bool:
    """Whether a call returns a coroutine."""
    function = _unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - not whether it is callable, but how
    )


def _unwrap(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function
