"""Turns a table with the settings of a provider into what its transport takes. Secrets are named there, never written.

What a table names (a variable, a file, a command) is read when the first request needs it, except for certificates and
headers.
"""

import os
import ssl
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.adapter import registry
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.configuration.file.schema import Named, ProviderTable
from dragoman.credentials.clouds import check_kind
from dragoman.private_files import warn_if_shared
from dragoman.transport.request_validation import validate_headers
from dragoman.transport.settings import read_provider_settings

_KEY_SOURCES = ("api_key_variable", "api_key_file", "api_key_command")
_PATHS = ("ca_file", "client_certificate", "client_key", "credentials_file", "api_key_file")
_OWN = (*_KEY_SOURCES, "ca_file", "client_certificate", "client_key", "headers")
"""Settings of the file that transports do not have by that name."""


class ProviderTableError(ConfigurationError):
    """``problems`` are the wrong settings, each with what is wrong; the name is empty for the table as a whole."""

    def __init__(self, provider: str, problems: Iterable[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__(
            f"providers.{provider}: " + "; ".join(f"{name}: {text}" if name else text for name, text in self.problems)
        )


def build_provider(provider: str, table: ProviderTable, folder: Path) -> dict[str, Any]:
    """Return the settings of a provider. Paths of the table are relative to ``folder``.

    Raises ProviderTableError with everything that is wrong.
    """
    problems: list[tuple[str, str]] = []
    given = {name: value for name, value in table.model_dump(exclude={"headers"}).items() if value is not None}
    paths = {name: (folder / Path(given[name]).expanduser()).absolute() for name in _PATHS if name in given}
    settings = {name: value for name, value in given.items() if name not in _OWN}
    if "credentials_file" in paths:
        settings["credentials_file"] = str(paths["credentials_file"])
    sources = [name for name in _KEY_SOURCES if name in given]
    if len(sources) > 1:
        problems.append((sources[1], f"there is {sources[0]} already: keep one of them"))
    elif sources:
        settings["credentials"] = _key_source(sources[0], given[sources[0]], paths)
    for name, work in (("headers", _read_headers), ("client_certificate", _read_certificates)):
        try:
            settings.update(work(table, paths))
        except (DragomanError, OSError, ValueError) as error:
            problems.append((name if getattr(table, name) else "ca_file", _first_line(error)))
    try:
        check_kind(provider, registry.adapter_class(provider).endpoint.credentials, settings)
        read_provider_settings(provider, settings)
    except DragomanError as error:
        problems.append(("", _first_line(error)))
    if problems:
        raise ProviderTableError(provider, problems)
    return settings


def untrusted_settings(table: ProviderTable) -> list[str]:
    """Return the settings of a table that decide where keys are sent, which keys these are, and what runs."""
    return sorted(name for name in TRUSTED_SETTINGS if getattr(table, name) is not None)


TRUSTED_SETTINGS = frozenset(ProviderTable.model_fields) - frozenset({
    "timeout", "connect_timeout", "max_retries", "max_connections", "http2", "engine", "body_cap", "region", "project",
    "location",
})  # fmt: skip
"""All settings that are not known to be harmless, so that a new one has to be trusted."""


def _key_source(name: str, value: Any, paths: Mapping[str, Path]) -> Any:
    from dragoman.credentials.given import from_command, from_file, from_variable  # few files name a source

    if name == "api_key_variable":
        return partial(from_variable, value)
    return partial(from_file, paths[name]) if name == "api_key_file" else partial(from_command, value)


def _read_headers(table: ProviderTable, _: Mapping[str, Path]) -> dict[str, Any]:
    if table.headers is None:
        return {}
    headers: dict[str, str] = {}
    for name, value in table.headers.items():
        if isinstance(value, Named):
            if not os.environ.get(value.variable, ""):
                raise ConfigurationError(f"the environment variable {value.variable} of the header {name} is not set")
            headers[name] = os.environ[value.variable]
        elif is_sensitive(name):
            raise ConfigurationError(
                f"the header {name} holds a secret, which does not belong in this file: write "
                f'{name} = {{ variable = "NAME" }}'
            )
        else:
            headers[name] = value
    return {"headers": validate_headers(headers)}


def _read_certificates(table: ProviderTable, paths: Mapping[str, Path]) -> dict[str, Any]:
    """Return the TLS settings: the certificates to trust, and the client's own."""
    if table.ca_file is None and table.client_certificate is None:
        if table.client_key is not None:
            raise ConfigurationError("client_key needs client_certificate")
        return {}
    if table.ca_file is not None:
        context = ssl.create_default_context(cafile=paths["ca_file"])
    else:
        import httpx  # it has the certificates that are trusted without a setting

        context = httpx.create_ssl_context()
    if table.client_certificate is not None:
        certificate, key = paths["client_certificate"], paths.get("client_key")
        warn_if_shared(key or certificate)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except ssl.SSLError as error:
            raise ConfigurationError(
                f"{key or certificate} holds no usable key and certificate: {error.reason}"
            ) from None
    return {"verify": context}


def _no_password() -> str:
    """Refuse a key with a password: OpenSSL would ask for it in the terminal."""
    raise ConfigurationError("the key of the client certificate has a password: store it without one, and chmod 600")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
