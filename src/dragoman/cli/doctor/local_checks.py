"""Checks of this computer, and what a check finds. None of them connects to anything or writes anything."""

import os
import platform
import re
import shlex
import ssl
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from dragoman.adapter.errors import ConfigurationError, DragomanError, MissingExtraError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.cli.io.console import show_line, show_lines
from dragoman.configuration.file import ConfigurationFile
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.stored_keys import StoredKeys
from dragoman.pricing import price_table
from dragoman.private_files import is_shared
from dragoman.sqlite_files import database_files
from dragoman.transport.engines.proxies import find_proxies


class State(StrEnum):
    """``note``: something is missing that not everybody needs. ``problem``: something fails."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` says what to do."""

    state: State
    subject: str
    text: str
    advice: str = ""


Findings = Iterator[Finding]

ok = partial(Finding, State.OK)
note = partial(Finding, State.NOTE)
problem = partial(Finding, State.PROBLEM)

_COLOURS = {State.OK: "green", State.NOTE: "yellow", State.PROBLEM: "bold red"}
_SUBJECT_WIDTH = 14
_STATE_WIDTH = max(map(len, State))


def print_finding(out: Console, finding: Finding) -> None:
    """Print one line, and the advice on a second one."""
    state = f"[{_COLOURS[finding.state]}]{finding.state:{_STATE_WIDTH}}[/]"
    out.print(f"{state}  {finding.subject:{_SUBJECT_WIDTH}} {show_lines(finding.text)}")
    if finding.advice:
        out.print(f"{'':{_STATE_WIDTH + _SUBJECT_WIDTH + 3}}[dim]to do:[/] {show_line(finding.advice)}")


def show_address(address: str) -> str:
    """Return scheme, host and port of an address. The rest may hold a password."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"


_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+).*;.*\bextra == ['\"](?P<extra>[\w.-]+)")
_CA_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_OTHER_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""Variables of other programs. If they are set, the network often needs the same certificates here."""


def check_python() -> Findings:
    yield ok("python", f"{platform.python_version()} on {platform.system()}, {sys.executable}")
    folder = Path(__file__).resolve().parents[2]
    yield ok("dragoman", f"{version('dragoman')}, {folder}")


def check_terminal() -> Findings:
    encoding = getattr(sys.stdout, "encoding", None) or "none"
    if encoding.lower().replace("-", "") == "utf8":
        yield ok("terminal", "UTF-8")
    else:
        yield note(
            "terminal",
            f"the encoding is {encoding}: other characters are shown as codes, and Markdown as it is",
            "set PYTHONUTF8=1, or a locale with UTF-8",
        )


def check_extras() -> Findings:
    """List the optional parts: those with all packages, and the others."""
    packages: dict[str, set[str]] = {name: set() for name in metadata("dragoman").get_all("Provides-Extra") or ()}
    for requirement in requires("dragoman") or ():
        if found := _REQUIREMENT.match(requirement):
            packages[found["extra"]].add(found["name"])
    installed = []
    for name, needed in packages.items():
        with suppress(PackageNotFoundError):
            for package in needed:
                version(package)
            installed.append(name)
    missing = sorted(packages.keys() - set(installed))
    yield ok("extras", f"installed: {', '.join(sorted(installed)) or 'none'}")
    if missing:
        yield note("extras", f"not installed: {', '.join(missing)}", "pip install 'dragoman[NAME]' if you need one")


def check_keys() -> Findings:
    """Say which providers have a key, and where it is."""
    places: dict[str, str] = {}
    try:
        places = StoredKeys().places()
    except ConfigurationError as error:
        yield problem("keys", str(error), "do what the message says, then run this again")
    found = bool(places)
    for provider in providers():
        variable = set_variable(provider)
        if variable is None:
            if provider in places:
                yield ok("keys", f"{provider}: {places[provider]}")
            continue
        found = True
        if ApiKey(os.environ[variable]).is_usable:
            yield ok("keys", f"{provider}: environment, {variable}")
        else:
            yield problem(
                "keys",
                f"{provider}: {variable} holds characters that no key can have",
                "set it again, without blanks and line ends",
            )
    if not found:
        yield note(
            "keys",
            "there is no key: only the embedded model and servers on this computer can answer",
            "dragoman keys set PROVIDER",
        )


def set_variable(provider: str) -> str | None:
    """Return the variable of the environment that holds the provider's key or token."""
    endpoint = adapter_class(provider).endpoint
    variables = (*endpoint.key_variables, *endpoint.token_variables)
    return next((variable for variable in variables if os.environ.get(variable, "").strip()), None)


def check_proxies(file: ConfigurationFile | None) -> Findings:
    """Name the proxies without their passwords."""
    found = [
        f"{use}: {value if use == 'no' else show_address(value)}" for use, value in find_proxies(None).by_use.items()
    ]
    tables = {} if file is None else file.tables.get("providers", {})
    if isinstance(tables, dict):
        for name, table in tables.items():
            if isinstance(table, dict) and isinstance(table.get("proxy"), str):
                found.append(f"{name}: {show_address(table['proxy'])}")
    yield ok("proxies", "; ".join(found) if found else "none")


def check_certificates() -> Findings:
    """Read the files with trusted certificates that the environment names."""
    named = [(variable, value) for variable in _CA_VARIABLES if (value := os.environ.get(variable))]
    for variable, value in named:
        try:
            if variable == "SSL_CERT_FILE":
                ssl.create_default_context(cafile=value)
            elif not Path(value).is_dir():
                raise NotADirectoryError(f"{value} is not a folder")
        except (OSError, ssl.SSLError) as error:
            yield problem(
                "certificates",
                f"{variable} names {value}, which cannot be used: {error}",
                "name a file with certificates in PEM form, or unset the variable",
            )
        else:
            yield ok("certificates", f"{variable}: {value}")
    ignored = [variable for variable in _OTHER_CA_VARIABLES if os.environ.get(variable)]
    if ignored and not named:
        yield note(
            "certificates",
            f"{', '.join(ignored)} is set, which Dragoman does not read",
            "set SSL_CERT_FILE, or ca_file in dragoman.toml, if your network has certificates of its own",
        )
    elif not named:
        yield ok("certificates", "those of the certifi package")


def check_clock() -> Findings:
    """Compare the clock with the day of the price table, which is in the past."""
    now = datetime.now(UTC)
    day = price_table().version[:10]
    if now.strftime("%Y-%m-%d") < day:
        yield problem(
            "clock",
            f"it says {now:%Y-%m-%d %H:%M} UTC, which is before the price table of {day}",
            "set the clock: certificates and signed requests depend on it",
        )
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def check_store(url: str | None, *, keeps_log: bool) -> Findings:
    """Open a store in a file, without writing to it."""
    if not keeps_log:
        yield ok("conversations", "not kept: dragoman.toml has log = false")
        return
    try:
        from sqlalchemy import make_url

        from dragoman.store import Store
        from dragoman.store.database import default_url
    except (ModuleNotFoundError, MissingExtraError):
        text, advice = "not kept, so that -c cannot continue one", "pip install 'dragoman[store]'"
        yield note("conversations", text, advice)
        return
    if url is not None and not url.startswith("sqlite"):
        yield ok("conversations", f"in {show_address(url)}")  # the checks that connect open it
        return
    place = default_url(create_folder=False) if url is None else make_url(url)
    path = Path(place.database or "")
    if not path.is_file():
        yield ok("conversations", f"none is kept yet; the first goes to {path}")
        return
    try:
        with Store(place, read_only=True) as store:
            kept = store.list(limit=1).sessions
    except DragomanError as error:
        yield problem("conversations", str(error), f"move {path} away, or set store in dragoman.toml")
        return
    last = f"the last one is of {kept[0].updated_at:%Y-%m-%d %H:%M} UTC" if kept else "it is empty"
    yield ok("conversations", f"in {path}; {last}")


def check_databases(file: ConfigurationFile | None, store: str | None) -> Findings:
    """Name the databases that other users of this computer can read: some are shared on purpose, so none is changed."""
    from platformdirs import user_data_path

    gateway = {} if file is None else file.tables.get("gateway", {})
    urls = (store, gateway.get("database") if isinstance(gateway, dict) else None)
    named: list[Path] = []
    for url in urls:
        scheme, _, file_name = url.partition(":///") if isinstance(url, str) else ("", "", "")
        if scheme.startswith("sqlite") and file_name:
            named.append(Path(file_name.partition("?")[0]).expanduser())
    for path in dict.fromkeys([*named, *sorted(user_data_path("dragoman", appauthor=False).glob("*.db"))]):
        if shared := [each for each in database_files(path) if is_shared(each)]:
            yield note("databases", f"others can read {path}", f"chmod 600 {shlex.join(map(str, shared))}")


def check_embedded_model() -> Findings:
    from dragoman.local.files import DEFAULT_MODEL, model_file

    if find_spec("openvino_genai") is None:
        yield note("embedded model", "its extra is not installed", "pip install 'dragoman[local]'")
        return
    try:
        path = model_file(DEFAULT_MODEL)
    except MissingExtraError as error:
        yield note("embedded model", str(error), "dragoman local install")
    except ConfigurationError as error:
        yield problem("embedded model", str(error), "dragoman local install")
    else:
        yield ok("embedded model", str(path))
