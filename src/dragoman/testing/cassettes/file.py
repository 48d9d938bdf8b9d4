"""The cassette file: recorded exchanges as YAML for humans to read and review.

::

    format: 2
    server: api.anthropic.com       # the server that answered
    recorded: 2026-11-20            # optional
    written_by: dragoman 0.1.0
    adapters: {anthropic: 0.1.0}    # the versions of the adapters that decoded the replies
    exchanges:
    - request:
        provider: anthropic         # if known
        method: POST
        path: /v1/messages          # without host: a recording does not depend on it
        headers: {...}
        json: {...}                 # the body; `cassettes.body` lists its forms
      response:
        reply: |                    # a summary for the reader of the file; not replayed
          The capital of France is Paris.
          (end_turn; 14 tokens in, 8 out)
        status: 200
        headers: {content-type: text/event-stream}
        events: |                   # one event per line
          event: message_start ⏎ data: {...}

Only allow-listed headers are kept, so no key, cookie or organisation is written. Anything else that looks like a
secret is rejected: see `cassettes.secrets`. Format 1 is still read: it has no dates and no providers, and writes
streams differently.
"""

import datetime
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dragoman.adapter.errors import MALFORMED_ERRORS, ConfigurationError, MissingExtraError, RequestError
from dragoman.adapter.registry import GROUP
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.testing.cassettes.body import decode_body, encode_body
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.leaks import find_leaks
from dragoman.testing.cassettes.secrets import Scanner, SecretFoundError
from dragoman.testing.cassettes.summary import describe_reply
from dragoman.testing.cassettes.wires import request_target

try:
    import yaml
except ModuleNotFoundError as missing:
    if missing.name != "yaml":
        raise
    raise MissingExtraError('cassettes need PyYAML: pip install "dragoman[testing]"') from None

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
    """A whole cassette file.

    ``recorded`` and ``written_by`` are None if the file does not contain them. ``adapters`` has the versions, by
    provider, of the adapters that decoded the replies at recording time.
    """

    server: str
    """The server that answered, such as ``api.openai.com``."""
    exchanges: Sequence[Exchange] = field(repr=False)
    """The exchanges in recorded order."""
    recorded: datetime.date | None = None
    written_by: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)


def dump_exchanges(exchanges: Sequence[Exchange], *, server: str, recorded: datetime.date | None = None) -> str:
    """Like `dumps`, for exchanges."""
    return dumps(new_recording(exchanges, server=server, recorded=recorded))


def new_recording(exchanges: Sequence[Exchange], *, server: str, recorded: datetime.date | None = None) -> Recording:
    """Return a recording of these exchanges by this version of the library."""
    readers = (request_target(exchange.request).reader for exchange in exchanges)
    adapters = {reader: adapter_version(reader) for reader in dict.fromkeys(readers) if reader}
    return Recording(server, exchanges, recorded, writer_version(), {k: v for k, v in adapters.items() if v})


def dumps(recording: Recording, scanner: Scanner | None = None) -> str:
    """Return the file's text. Raises SecretFoundError if anything in it looks like a secret."""
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
        text = ""  # a traceback may show the variables of this frame
        raise SecretFoundError(found)
    return text


def load_exchanges(text: str) -> tuple[str, list[Exchange]]:
    """Return the server's name and the exchanges; see `loads`."""
    recording = loads(text)
    return recording.server, list(recording.exchanges)


def loads(text: str) -> Recording:
    """Parse a file's text. The loader creates plain data only. Raises ConfigurationError."""
    try:
        _check_shape(text)
        data = yaml.load(text, Loader=_LOADER)
        if data["format"] not in READABLE:
            raise ConfigurationError(f"this is not a cassette of a format up to {FORMAT}")
        exchanges = [_parse_exchange(item["request"], item["response"]) for item in data["exchanges"]]
        recorded = data.get("recorded")
        if not isinstance(recorded, datetime.date | None):
            raise ConfigurationError("this is not a cassette: `recorded` is not a date")
        return Recording(data["server"], exchanges, recorded, data.get("written_by"), dict(data.get("adapters", {})))
    except (yaml.YAMLError, RequestError, *MALFORMED_ERRORS) as error:
        raise ConfigurationError(f"this is not a cassette: {type(error).__name__}: {error!s:.400}") from None


@cache
def writer_version() -> str:
    """Return the name and version of this library."""
    return f"dragoman {importlib.metadata.version('dragoman')}"


@cache
def adapter_version(provider: str) -> str | None:
    """Return the version of the package of an adapter, or None if it is not installed."""
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
    """Return the exchange with allow-listed headers only."""
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
    """Reject nesting that crashes the C loader, and aliases, which can expand a few lines to gigabytes.

    Raises ConfigurationError, and YAMLError if the text is not YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError("this is not a cassette: it has aliases")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DOCUMENT_DEPTH:
            raise ConfigurationError(f"this is not a cassette: it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")


class _Dumper(yaml.SafeDumper):
    """Writes texts with several lines as blocks, and no anchors, which would link unrelated bodies."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)
