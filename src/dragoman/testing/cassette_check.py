"""What is wrong, or old, about a cassette file."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ConfigurationError, DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.testing.cassette_exchange import Exchange
from dragoman.testing.cassette_file import Recording, adapter_version, load
from dragoman.testing.cassette_leaks import leaks
from dragoman.testing.cassette_reply import message_of
from dragoman.testing.cassette_secrets import Scanner
from dragoman.testing.cassette_wires import wire_of

STALE_DAYS = 180
VERSION_HEADERS = ("anthropic-version",)


@dataclass(frozen=True, slots=True)
class Remark:
    """``kind``: the file cannot be read, holds a secret, holds a reply that its adapter cannot read, or is stale."""

    kind: Literal["unreadable", "secret", "reply", "stale"]
    text: str

    @property
    def grave(self) -> bool:
        """Whether the file should not stay as it is."""
        return self.kind in ("unreadable", "secret")


def check(path: Path, today: datetime.date, days: int = STALE_DAYS) -> list[Remark]:
    """All remarks on a file."""
    try:
        recording = load(path.read_text(encoding="utf-8"))
    except (ConfigurationError, UnicodeDecodeError) as error:
        return [Remark("unreadable", str(error))]
    scanner = Scanner()
    found = [
        Remark("secret", str(leak)) for n, each in enumerate(recording.exchanges, 1) for leak in leaks(each, scanner, n)
    ]
    return [*found, *_replies(recording), *(Remark("stale", text) for text in stale(recording, today, days))]


def stale(recording: Recording, today: datetime.date, days: int = STALE_DAYS) -> Iterator[str]:
    """Why a recording may no longer show what the provider does: its age, the API's version, the adapter's version."""
    if recording.recorded and (age := (today - recording.recorded).days) > days:
        yield f"recorded on {recording.recorded}, {age} days ago"
    for provider, version in recording.adapters.items():
        now = adapter_version(provider)
        if now and _minor(now) != _minor(version):
            yield f"recorded with version {version} of the adapter {provider}, and {now} is installed"
    said = dict.fromkeys(each for exchange in recording.exchanges for each in _api_versions(exchange))
    yield from said


def _api_versions(exchange: Exchange) -> Iterator[str]:
    reader = wire_of(exchange.request).reader
    recorded = {name: exchange.request.headers[name] for name in VERSION_HEADERS if name in exchange.request.headers}
    if reader and recorded:
        for name, now in _sent_now(reader).items():
            if name in recorded and recorded[name] != now:
                yield f"recorded with {name} {recorded[name]}, and {now} is sent now"


def _sent_now(provider: str) -> dict[str, str]:
    try:
        adapter: Adapter = get_adapter(f"{provider}:any")
        headers = adapter.to_wire([Message.user("x")], [], AdapterOptions()).headers
    except DragomanError:
        return {}
    return {name.lower(): value for name, value in headers.items() if name.lower() in VERSION_HEADERS}


def _replies(recording: Recording) -> Iterator[Remark]:
    """Replies that were a success for the server and are none for the adapter."""
    for number, exchange in enumerate(recording.exchanges, 1):
        found = message_of(exchange) if exchange.response.status < 400 else None
        if isinstance(found, ProviderError):
            yield Remark("reply", f"exchange {number}: {type(found).__name__}: {found.message}")


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
