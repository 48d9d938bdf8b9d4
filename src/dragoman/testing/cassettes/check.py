"""Checks a cassette file for faults and staleness."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.testing.cassettes.exchange import Exchange, request_target
from dragoman.testing.cassettes.file import Recording, adapter_version, loads, read_reply
from dragoman.testing.cassettes.leaks import find_leaks
from dragoman.testing.cassettes.secrets import Scanner

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
    found = [Issue("secret", str(leak)) for leak in find_leaks(recording.exchanges, Scanner())]
    for number, exchange in enumerate(recording.exchanges, 1):
        reply = read_reply(exchange) if exchange.response.status < 400 else None
        if isinstance(reply, ProviderError):
            found.append(Issue("reply", f"exchange {number}: {type(reply).__name__}: {reply.message}"))
    return [*found, *(Issue("stale", text) for text in find_staleness(recording, today, days))]


def find_staleness(recording: Recording, today: datetime.date, days: int = STALE_DAYS) -> Iterator[str]:
    """Yield the reasons why a recording may be out of date: its age, the API version, the adapter version."""
    if recording.recorded and (age := (today - recording.recorded).days) > days:
        yield f"recorded on {recording.recorded}, {age} days ago"
    for provider, version in recording.adapters.items():
        installed = adapter_version(provider)
        if installed and _minor_version(installed) != _minor_version(version):
            yield f"recorded with version {version} of the adapter {provider}, but {installed} is installed"
    yield from dict.fromkeys(each for exchange in recording.exchanges for each in _api_versions(exchange))


def _api_versions(exchange: Exchange) -> Iterator[str]:
    """Yield how the version headers of a request differ from those that its adapter writes now."""
    reader = request_target(exchange.request).reader
    recorded = {name: exchange.request.headers[name] for name in VERSION_HEADERS if name in exchange.request.headers}
    if not (reader and recorded):
        return
    try:
        written = get_adapter(f"{reader}:any").to_wire([Message.user("x")], [], AdapterOptions())
    except DragomanError:
        return
    for name, current in written.headers.items():
        if recorded.get(name.lower(), current) != current:
            yield f"recorded with {name.lower()} {recorded[name.lower()]}, but {current} is sent now"


def _minor_version(version: str) -> list[str]:
    return version.split(".")[:2]
