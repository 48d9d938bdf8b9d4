"""Turns a configuration file into the settings of a client, and reports every mistake in it at once."""

import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from dragoman.adapter import registry
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.adapter.names import nearest_name
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.configuration.file.files import (
    ConfigurationFile,
    Origin,
    find_configuration,
    is_trusted,
    read_configuration,
)
from dragoman.configuration.file.schema import Document, Named, ProviderTable
from dragoman.configuration.settings import ClientSettings
from dragoman.credentials.clouds import check_kind
from dragoman.limits import Budget, Limit, Limits
from dragoman.private_files import warn_if_shared
from dragoman.routing import Router
from dragoman.transport.call import validate_headers
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
        from dragoman.credentials.functions import from_command, from_file, from_variable  # few files name a source

        (name,) = sources
        readers: tuple[Callable[..., Any], ...] = (from_variable, from_file, from_command)
        settings["credentials"] = partial(readers[_KEY_SOURCES.index(name)], paths.get(name, given[name]))
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


PLUGINS = "dragoman.plugins"
"""The entry-point group of plugins: a plugin, or a callable that takes the settings and returns one."""
_OPTIONS = tuple(each.name for each in fields(AdapterOptions) if each.name not in ("context", "stream"))


_Mistake = tuple[tuple[str | int, ...], str]
"""The place of a mistake in the file, and what is wrong there."""


def load_configuration(path: Path | None = None) -> ClientSettings | None:
    """Return the settings of the configuration file that applies; None if there is none. Raises as `build_settings`."""
    found = find_configuration() if path is None else (path, Origin.NAMED)
    if found is None:
        return None
    file = read_configuration(*found)
    return build_settings(file, trusted=is_trusted(file))


def build_settings(file: ConfigurationFile, *, trusted: bool) -> ClientSettings:
    """Return the settings of the client that the file describes.

    ``trusted``: whether the settings that decide where keys go, and plugins, take effect. Raises ConfigurationError
    with every mistake, and also if the file holds such settings and is not trusted.
    """
    settings: dict[str, Any] = {}
    mistakes: list[_Mistake] = []
    try:
        document = Document.model_validate(dict(file.tables))
    except ValidationError as error:
        mistakes = [(tuple(each["loc"]), _describe(each)) for each in error.errors(include_input=False)]
    else:
        untrusted = [
            f"providers.{name}.{setting}"
            for name, table in document.providers.items()
            for setting in untrusted_settings(table)
        ] + ["plugins"] * bool(document.plugins)
        if untrusted and not trusted:
            raise ConfigurationError(
                f"{file.path} sets {', '.join(untrusted)}, which decide where keys are sent and what runs: read the "
                f"file, and then run: dragoman config trust {file.path}"
            )
        options = router = None
        if unknown := [name for name in document.options if name not in _OPTIONS]:
            mistakes += [(("options", name), f"an unknown option{nearest_name(name, _OPTIONS)}") for name in unknown]
        elif document.options:
            options = _collect(mistakes, ("options",), partial(AdapterOptions, **document.options))
        if routing := [name for name in ("aliases", "rules", "default_model") if getattr(document, name)]:
            rules, aliases = document.rules, document.aliases
            new_router = partial(Router, rules=rules, aliases=aliases, global_default=document.default_model)
            router = _collect(mistakes, routing[:1], new_router)
        limits = _collect_each(mistakes, "limits", Limit, document.limits)
        built_settings = {
            "options": options,
            "router": router,
            "providers": _build_providers(document, mistakes, file.path.parent),
            "limits": Limits(limits) if limits and None not in limits else None,
            "budgets": _collect_each(mistakes, "budgets", Budget, document.budgets),
            "policy": _collect_each(mistakes, "plugins", _load_plugin, document.plugins),
            "store": document.store,
        }
        settings = {name: value for name, value in built_settings.items() if value}
    if mistakes:
        listed = "\n  ".join(
            f"{file.path}:{file.line_of(place)}: {'.'.join(map(str, place))}: {problem}" for place, problem in mistakes
        )
        raise ConfigurationError(
            f"the configuration has {len(mistakes)} mistake{'s' * (len(mistakes) > 1)}:\n  {listed}"
        )
    built: ClientSettings = settings  # type: ignore[assignment]  # the names are those of ClientSettings
    return built


def _describe(error: Any) -> str:
    """Say what is wrong without repeating the value: it may be secret."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"])
    *table, name = error["loc"]
    if name == "api_key":
        return (
            "a key does not belong in this file: set the provider's environment variable, run dragoman keys set, or"
            " name its place in api_key_variable, api_key_file or api_key_command"
        )
    known = ProviderTable.model_fields if table[:1] == ["providers"] else Document.model_fields
    return f"an unknown setting{nearest_name(str(name), known) if len(table) in (0, 2) else ''}"


def _collect(mistakes: list[_Mistake], place: Iterable[str | int], work: Callable[[], Any]) -> Any:
    """Return the result of the work, or None and its mistake."""
    try:
        return work()
    except (DragomanError, ValidationError, TypeError, ValueError, OSError) as error:
        mistakes.append((tuple(place), str(error).replace("\n", " ")))
        return None


def _collect_each(
    mistakes: list[_Mistake], name: str, make: Callable[..., Any], tables: Iterable[BaseModel]
) -> list[Any]:
    """Return what is made of each table of a list, or None for one with a mistake."""
    return [
        _collect(mistakes, (name, index), partial(make, **table.model_dump())) for index, table in enumerate(tables)
    ]


def _build_providers(document: Document, mistakes: list[_Mistake], folder: Path) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for name, table in document.providers.items():
        if not registry.is_provider(name):
            hint = nearest_name(name, registry.providers())
            mistakes.append((("providers", name), f"an unknown provider{hint}"))
            continue
        try:
            built[name] = build_provider(name, table, folder)
        except ProviderTableError as found:
            mistakes += [
                (("providers", name, *([setting] if setting else [])), problem) for setting, problem in found.problems
            ]
    return built


def _load_plugin(name: str, settings: Mapping[str, Any]) -> Any:
    """Return a plugin: a ready one, or an installed one. Raises ConfigurationError if there is none of that name."""
    from dragoman.policy.plugins.presets import PRESETS, build_preset  # most files name no plugin

    if name in PRESETS:
        return build_preset(name, settings)
    known = {entry.name: entry for entry in entry_points(group=PLUGINS)}
    if name not in known:
        hint = nearest_name(name, (*PRESETS, *known))
        raise ConfigurationError(f"no plugin {name!r:.60} is installed{hint}")
    found = known[name].load()
    return found(**settings) if isinstance(found, type) or settings else found
