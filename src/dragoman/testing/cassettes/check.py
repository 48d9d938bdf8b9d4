"""Checks a cassette file for faults and staleness."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.testing.cassettes.exchange import Exchange
from dragoman.testing.cassettes.file import Recording, adapter_version, loads
from dragoman.testing.cassettes.leaks import find_leaks
from dragoman.testing.cassettes.secrets import Scanner
from dragoman.testing.cassettes.summary import read_reply
from dragoman.testing.cassettes.wires import request_target

STALE_DAYS = 180
VERSION_HEADERS = ("anthropic-version",)


@dataclass(frozen=True, slots=True)
class Issue:
    """``kind``: the file is unreadable, has a secret, has a reply that its adapter cannot decode, or is stale."""

    kind: Literal["unreadable", "secret", "reply", "stale"]
    text: str

    @property
    def is_serious(self) -> bool:
        """Whether the file must be changed."""
        return self.kind in ("unreadable", "secret")


def check(path: Path, today: datetime.date, days: int = STALE_DAYS) -> list[Issue]:
    """Return all issues of a file."""
    try:
        recording = loads(path.read_text(encoding="utf-8"))
    except (ConfigurationError, UnicodeDecodeError) as error:
        return [Issue("unreadable", str(error))]
    scanner = Scanner()
    found = [
        Issue("secret", str(leak))
        for n, each in enumerate(recording.exchanges, 1)
        for leak in find_leaks(each, scanner, n)
    ]
    return [
        *found,
        *_reply_issues(recording),
        *(Issue("stale", text) for text in find_staleness(recording, today, days)),
    ]


def find_staleness(recording: Recording, today: datetime.date, days: int = STALE_DAYS) -> Iterator[str]:
    """Yield the reasons why a recording may be out of date: its age, the API version, the adapter version."""
    if recording.recorded and (age := (today - recording.recorded).days) > days:
        yield f"recorded on {recording.recorded}, {age} days ago"
    for provider, version in recording.adapters.items():
        installed = adapter_version(provider)
        if installed and _minor_version(installed) != _minor_version(version):
            yield f"recorded with version {version} of the adapter {provider}, but {installed} is installed"
    versions = dict.fromkeys(each for exchange in recording.exchanges for each in _api_versions(exchange))
    yield from versions


def _api_versions(exchange: Exchange) -> Iterator[str]:
    reader = request_target(exchange.request).reader
    recorded = {name: exchange.request.headers[name] for name in VERSION_HEADERS if name in exchange.request.headers}
    if reader and recorded:
        for name, current in _current_headers(reader).items():
            if name in recorded and recorded[name] != current:
                yield f"recorded with {name} {recorded[name]}, but {current} is sent now"


def _current_headers(provider: str) -> dict[str, str]:
    try:
        adapter: Adapter = get_adapter(f"{provider}:any")
        headers = adapter.to_wire([Message.user("x")], [], AdapterOptions()).headers
    except DragomanError:
        return {}
    return {name.lower(): value for name, value in headers.items() if name.lower() in VERSION_HEADERS}


def _reply_issues(recording: Recording) -> Iterator[Issue]:
    """Yield the replies with a success status that the adapter cannot decode."""
    for number, exchange in enumerate(recording.exchanges, 1):
        found = read_reply(exchange) if exchange.response.status < 400 else None
        if isinstance(found, ProviderError):
            yield Issue("reply", f"exchange {number}: {type(found).__name__}: {found.message}")


def _minor_version(version: str) -> list[str]:
    return version.split(".")[:2]
