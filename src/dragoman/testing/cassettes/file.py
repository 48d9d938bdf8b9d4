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
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import (
    MALFORMED_ERRORS,
    ConfigurationError,
    DragomanError,
    MissingExtraError,
    ProviderError,
    RequestError,
)
from dragoman.adapter.registry import GROUP
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.canonical.message import Message
from dragoman.testing.cassettes.body import decode_body, encode_body
from dragoman.testing.cassettes.exchange import (
    Exchange,
    RecordedRequest,
    RecordedResponse,
    cached_adapter,
    request_target,
)
from dragoman.testing.cassettes.leaks import find_leaks, scrub_exchanges
from dragoman.testing.cassettes.secrets import Scanner, SecretFoundError

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
_UNREADABLE_OPERATIONS = frozenset({"count_tokens", "input_tokens", "countTokens"})


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
    exchanges = [
        Exchange(
            replace(each.request, headers=keep_headers(each.request.headers, REQUEST_HEADERS)),
            replace(each.response, headers=keep_headers(each.response.headers, RESPONSE_HEADERS)),
        )
        for each in recording.exchanges
    ]
    if found := find_leaks(exchanges, scanner) + scanner.scan_text(recording.server, "server"):
        raise SecretFoundError(found)
    noted = {
        "server": recording.server,
        "recorded": recording.recorded,
        "written_by": recording.written_by,
        "adapters": dict(recording.adapters) or None,
    }
    data: dict[str, Any] = {
        "format": FORMAT,
        **{name: value for name, value in noted.items() if value is not None},
        "exchanges": [_dump_exchange(exchange) for exchange in exchanges],
    }
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
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
        exchanges = []
        for item in data["exchanges"]:
            sent, answered = item["request"], item["response"]
            provider, kept = sent.get("provider"), sent.get("headers", {})
            request = RecordedRequest(sent["method"], sent["path"], decode_body(sent), kept, provider)
            response = RecordedResponse(answered["status"], decode_body(answered), answered.get("headers", {}))
            exchanges.append(Exchange(request, response))
        recorded = data.get("recorded")
        if not isinstance(recorded, datetime.date | None):
            raise ConfigurationError("this is not a cassette: `recorded` is not a date")
        return Recording(data["server"], exchanges, recorded, data.get("written_by"), dict(data.get("adapters", {})))
    except (yaml.YAMLError, RequestError, *MALFORMED_ERRORS) as error:
        raise ConfigurationError(f"this is not a cassette: {type(error).__name__}: {error!s:.400}") from None


def read_recording(path: Path) -> Recording:
    """Return the recording of a file. Raises ConfigurationError, with the path, if it is not a cassette."""
    try:
        return loads(path.read_text(encoding="utf-8"))
    except (ConfigurationError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None


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


def _dump_exchange(exchange: Exchange) -> dict[str, Any]:
    request, response = exchange.request, exchange.response
    sent = {"provider": request.provider, "method": request.method, "path": request.path, "headers": request.headers}
    answered = {"reply": describe_reply(exchange), "status": response.status, "headers": response.headers}
    return {
        name: {key: value for key, value in fields.items() if value not in (None, {})} | encode_body(part.body)
        for name, fields, part in (("request", sent, request), ("response", answered, response))
    }


def keep_headers(headers: Mapping[str, str], allowed: frozenset[str]) -> dict[str, str]:
    """Return the headers that a cassette keeps, with names in lower case."""
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


_Dumper.add_representer(
    str,
    lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None),
)


def read_reply(exchange: Exchange) -> Message | ProviderError | None:
    """Return the reply or the typed error that the provider's adapter decodes, or None if there is no such adapter."""
    wire = request_target(exchange.request)
    if wire.reader is None or wire.operation in _UNREADABLE_OPERATIONS:
        return None
    logger = logging.getLogger("dragoman")
    silent, logger.disabled = logger.disabled, True
    try:
        adapter, response = cached_adapter(wire.reader, wire.model or "any"), exchange.response
        context = RequestContext(model=str(adapter.model_id))
        whole = response.headers.get("content-type", "").startswith("application/json") or response.status >= 400
        if whole or (response.body[:1] in (b"", b"{") and b"\n{" not in response.body):
            return adapter.from_wire_response(WireResponse(response.status, response.body, response.headers), context)
        *_, last = adapter.iter_stream([response.body], context)
        if isinstance(last, ErrorEvent):
            return last.error if isinstance(last.error, ProviderError) else ProviderError(str(last.error))
        assert isinstance(last, MessageComplete)
        return last.message
    except ProviderError as error:
        return error
    except DragomanError:
        return None
    finally:
        logger.disabled = silent


def describe_reply(exchange: Exchange) -> str | None:
    """Return a summary of a reply in a few lines, or None if no adapter reads it."""
    found = read_reply(exchange)
    if found is None:
        return None
    lines: list[str] = []
    if isinstance(found, Message):
        lines += _message_lines(found)
    else:
        lines.append(f"[{type(found).__name__}] {found.message}")
        if isinstance(found.partial, Message) and found.partial.content:
            lines += ["[before it]", *_message_lines(found.partial)]
    return "\n".join(lines) + "\n"


def _message_lines(message: Message) -> Iterator[str]:
    for block in message.content:
        match block:
            case TextBlock():
                yield block.text
            case ThinkingBlock():
                yield f"[thinking] {block.text}" if block.text else "[thinking, signed and not shown]"
            case ToolUseBlock():
                yield f"[calls {block.name}] {json.dumps(block.input, ensure_ascii=False)}"
            case ProviderBlock():
                yield f"[{block.kind}]"
            case _:
                yield f"[{block.type}]"
    facts = [str(message.metadata.stop_reason or "no stop reason")]
    if usage := message.metadata.usage:
        facts.append(f"{usage.prompt_tokens} tokens in, {usage.output_tokens} out")
    yield f"({'; '.join(facts)})"


def scrub_recording(recording: Recording, scanner: Scanner | None = None) -> Recording:
    """Return the recording with everything masked that looks like a secret. Raises SecretFoundError for one that is
    split over the events of a stream."""
    scanner = scanner or Scanner()
    exchanges = scrub_exchanges(recording.exchanges, scanner)
    return replace(recording, server=scanner.mask(recording.server), exchanges=exchanges)
