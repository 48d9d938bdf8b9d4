"""The cassette file: recorded exchanges as YAML that a person can read and review.

::

    format: 2
    server: api.anthropic.com       # who really answered
    recorded: 2026-11-20            # and when, if that is known
    written_by: dragoman 0.1.0
    adapters: {anthropic: 0.1.0}    # the versions that read the wire
    exchanges:
    - request:
        provider: anthropic         # where it is known
        method: POST
        path: /v1/messages          # without host: a cassette does not care where it was recorded
        headers: {...}
        json: {...}                 # the body; `cassette_body` lists its forms
      response:
        reply: |                    # what was said, for the reader of the file; it is not played
          The capital of France is Paris.
          (end_turn; 14 tokens in, 8 out)
        status: 200
        headers: {content-type: text/event-stream}
        events: |                   # one event a line
          event: message_start ⏎ data: {...}

Headers are kept only where they are on a list of harmless ones, so no key, cookie or organisation gets in. Whatever
else looks like a secret is refused: `cassette_secrets`. Format 1, which had neither dates nor providers and wrote
streams in another way, is read as well.
"""

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.registry import GROUP
from dragoman.adapter.replies.stream_decoder import MALFORMED_ERRORS
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.testing.cassettes.body import decode_body, encode_body
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.leaks import find_leaks
from dragoman.testing.cassettes.secrets import Scanner, SecretFoundError
from dragoman.testing.cassettes.summary import describe_reply
from dragoman.testing.cassettes.wires import request_target

__all__ = [
    "Exchange",
    "RecordedRequest",
    "RecordedResponse",
    "Recording",
    "dump_exchanges",
    "dumps",
    "load_exchanges",
    "loads",
    "new_recording",
]

FORMAT = 2
READABLE = (1, 2)

REQUEST_HEADERS = frozenset({"content-type", "accept", "anthropic-version", "anthropic-beta", "openai-beta"})
RESPONSE_HEADERS = frozenset(
    {"content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry"}
)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole cassette file. ``recorded`` and ``written_by`` are None where nobody noted them; ``adapters`` are the
    versions, by provider, of the adapters that read the wires when it was recorded."""

    server: str
    exchanges: Sequence[Exchange] = field(repr=False)
    recorded: datetime.date | None = None
    written_by: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)


def dump_exchanges(exchanges: Sequence[Exchange], *, server: str, recorded: datetime.date | None = None) -> str:
    """As `save`, of exchanges."""
    return dumps(new_recording(exchanges, server=server, recorded=recorded))


def new_recording(exchanges: Sequence[Exchange], *, server: str, recorded: datetime.date | None = None) -> Recording:
    """Exchanges as this library records them now."""
    readers = (request_target(exchange.request).reader for exchange in exchanges)
    adapters = {reader: adapter_version(reader) for reader in dict.fromkeys(readers) if reader}
    return Recording(server, exchanges, recorded, writer_version(), {k: v for k, v in adapters.items() if v})


def dumps(recording: Recording, scanner: Scanner | None = None) -> str:
    """The file's text. Raises SecretFoundError where anything in it looks like a secret."""
    scanner = scanner or Scanner()
    found = [
        each
        for n, exchange in enumerate(recording.exchanges)
        for each in find_leaks(_strip_headers(exchange), scanner, n + 1)
    ]
    found += scanner.scan_text(recording.server, "server")
    if found:
        raise SecretFoundError(found)
    text = _to_yaml(recording)
    if found := scanner.scan_text(text, "the file"):
        text = ""  # a traceback may show what stands in this frame
        raise SecretFoundError(found)
    return text


def load_exchanges(text: str) -> tuple[str, list[Exchange]]:
    """The server's name and the exchanges; see `load`."""
    recording = loads(text)
    return recording.server, list(recording.exchanges)


def loads(text: str) -> Recording:
    """Reads a file's text. Data only: the loader makes no objects. Raises ConfigurationError."""
    try:
        _check_shape(text)
        data = yaml.load(text, Loader=_LOADER)
        if data["format"] not in READABLE:
            raise ConfigurationError(f"this is no cassette of a format up to {FORMAT}")
        exchanges = [_parse_exchange(item["request"], item["response"]) for item in data["exchanges"]]
        recorded = data.get("recorded")
        if not isinstance(recorded, datetime.date | None):
            raise ConfigurationError("this is no cassette: `recorded` is no date")
        return Recording(data["server"], exchanges, recorded, data.get("written_by"), dict(data.get("adapters", {})))
    except (yaml.YAMLError, RequestError, *MALFORMED_ERRORS) as error:
        raise ConfigurationError(f"this is no cassette: {type(error).__name__}: {error!s:.400}") from None


@cache
def writer_version() -> str:
    """What writes: the name and version of this library."""
    return f"dragoman {importlib.metadata.version('dragoman')}"


@cache
def adapter_version(provider: str) -> str | None:
    """The version of the package that an installed adapter comes from; None of one that is not installed."""
    for entry in importlib.metadata.entry_points(group=GROUP, name=provider):
        return entry.dist.version if entry.dist else None
    return None


def _parse_exchange(request: Mapping[str, Any], response: Mapping[str, Any]) -> Exchange:
    recorded_request = RecordedRequest(
        request["method"], request["path"], decode_body(request), request.get("headers", {}), request.get("provider")
    )
    return Exchange(
        recorded_request, RecordedResponse(response["status"], decode_body(response), response.get("headers", {}))
    )


def _to_yaml(recording: Recording) -> str:
    noted = {
        "server": recording.server,
        "recorded": recording.recorded,
        "written_by": recording.written_by,
        "adapters": dict(recording.adapters) or None,
    }
    return yaml.dump(
        {
            "format": FORMAT,
            **{name: value for name, value in noted.items() if value is not None},
            "exchanges": [_dump_exchange(exchange) for exchange in recording.exchanges],
        },
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=120,
    )


def _dump_exchange(exchange: Exchange) -> dict[str, Any]:
    request, response = _strip_headers(exchange).request, _strip_headers(exchange).response
    reply = describe_reply(exchange)
    return {
        "request": {
            **({"provider": request.provider} if request.provider else {}),
            "method": request.method,
            "path": request.path,
            **({"headers": dict(request.headers)} if request.headers else {}),
            **encode_body(request.body),
        },
        "response": {
            **({"reply": reply} if reply else {}),
            "status": response.status,
            **({"headers": dict(response.headers)} if response.headers else {}),
            **encode_body(response.body),
        },
    }


def _strip_headers(exchange: Exchange) -> Exchange:
    """The exchange with the headers that a file may hold."""
    request, response = exchange.request, exchange.response
    return Exchange(
        RecordedRequest(
            request.method,
            request.path,
            request.body,
            _filter_headers(request.headers, REQUEST_HEADERS),
            request.provider,
        ),
        RecordedResponse(response.status, response.body, _filter_headers(response.headers, RESPONSE_HEADERS)),
    )


def _filter_headers(headers: Mapping[str, str], allowed: frozenset[str]) -> dict[str, str]:
    return dict(sorted((name.lower(), value) for name, value in headers.items() if name.lower() in allowed))


def _check_shape(text: str) -> None:
    """Refuses depths at which the loader in C crashes, and aliases, with which a few lines mean gigabytes.

    Raises ConfigurationError, and YAMLError where the text is no YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError("this is no cassette: it has aliases")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DOCUMENT_DEPTH:
            raise ConfigurationError(f"this is no cassette: it is nested over {MAX_DOCUMENT_DEPTH} levels deep")


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; no anchors, which would tie distant bodies together."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)
