"""Converts cassettes of other recorders: vcrpy, pydantic-ai, LangChain and Ruby's VCR.

Hosts and most headers are dropped. Compressed bodies are decompressed; the content does not change.
"""

import datetime
import email.utils
import gzip
import io
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from dragoman.adapter.errors import MALFORMED_ERRORS, ConfigurationError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.cassette import RecordedExchange, read_cassette
from dragoman.testing.cassettes.exchange import Exchange, RecordedResponse, parse_json
from dragoman.testing.cassettes.file import RESPONSE_HEADERS, Recording, keep_headers, new_recording
from dragoman.testing.cassettes.vcrpy import flatten_headers, to_recorded_request
from dragoman.testing.event_bytes import BOM, CONTENT_TYPES, Framing, detect_framing, event_payload, split_events

SUFFIXES = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz")
_REDACTED = "**REDACTED**"
_UNKNOWN_HOST = "unknown"
_GZIP = b"\x1f\x8b"
_MOST_BYTES = 256 * 1024 * 1024
_MOST_NODES = 5_000_000
"""An alias counts each time it is used: a few lines of aliases can expand to a billion nodes."""

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE):  # type: ignore[misc]
    """Creates plain data only. Of vcrpy's Python tags, it reads those of strings, tuples and byte buffers."""


def _buffer(loader: Any, node: Any) -> bytes:
    state = loader.construct_mapping(node, deep=True).get("state") or [b""]
    content = state[0]
    return content.encode() if isinstance(content, str) else bytes(content or b"")


for _name, _read in (
    ("str", _SAFE.construct_scalar),
    ("unicode", _SAFE.construct_scalar),
    ("tuple", partial(_SAFE.construct_sequence, deep=True)),
    ("object/new:_io.BytesIO", _buffer),
):
    _Loader.add_constructor(f"tag:yaml.org,2002:python/{_name}", _read)


def import_recording(path: Path) -> Recording:
    """Convert another recorder's file. Its date is the earliest date of the replies, if they have one.

    Raises ConfigurationError if the format is unknown.
    """
    data = _load_file(path)
    exchanges: list[Exchange] = []
    dates: list[datetime.date] = []
    try:
        if isinstance(data, Mapping) and "requests" in data and "responses" in data:  # LangChain
            pairs = zip(data["requests"], data["responses"], strict=True)
            data = {"interactions": [{"request": request, "response": response} for request, response in pairs]}
        found = list(read_cassette(data))
        items = next(data[name] for name in ("interactions", "http_interactions") if name in data)
        for item, each in zip(items, found, strict=True):
            exchange, date = _convert(each, item["request"].get("headers"))
            exchanges.append(exchange)
            dates += [date] if date else []
    except (FormatError, *MALFORMED_ERRORS) as error:
        raise ConfigurationError(f"{path.name} is not a recording: {type(error).__name__}: {error!s:.300}") from None
    hosts = dict.fromkeys(each.request.host or _UNKNOWN_HOST for each in exchanges)
    return new_recording(exchanges, server=", ".join(hosts) or _UNKNOWN_HOST, recorded=min(dates, default=None))


def _convert(recorded: RecordedExchange, request_headers: Any) -> tuple[Exchange, datetime.date | None]:
    """Return the exchange, and the date of its reply."""
    uri, body = recorded.url, recorded.response
    if body.startswith(_GZIP):  # without the header that says so
        with suppress(OSError, EOFError, zlib.error):
            body = gzip.decompress(body)
    if _REDACTED in uri:
        uri = _guess_uri(recorded.request, body)
    content_type = "application/json"
    if body and parse_json(body) is None:
        content_type = CONTENT_TYPES[detect_framing(body)]
        if content_type == CONTENT_TYPES[Framing.SSE] and b"data:" not in body:
            content_type = "text/plain"
    headers = keep_headers(_plain_headers(recorded.headers), RESPONSE_HEADERS)
    request = to_recorded_request(recorded.method, uri, recorded.request, _plain_headers(request_headers))
    written = recorded.headers.get("date")
    try:
        date = email.utils.parsedate_to_datetime(written).date() if written else None
    except ValueError:
        date = None
    return Exchange(request, RecordedResponse(recorded.status, body, {"content-type": content_type, **headers})), date


def _plain_headers(headers: Any) -> dict[str, str]:
    """Return the headers that were not redacted."""
    kept = {str(name): value for name, value in (headers or {}).items()}
    return flatten_headers({n: v for n, v in kept.items() if v not in (None, _REDACTED, [_REDACTED])})


def _guess_uri(request: bytes, response: bytes) -> str:
    """Guess the URL that the recorder redacted, from the bodies."""
    request_body = parse_json(request)
    events = [parse_json(event_payload(event)) for event in split_events(response)[:3]] if response else []
    response_body = next((each for each in [parse_json(response), *events] if isinstance(each, dict)), {})
    kind = str(response_body.get("object") or response_body.get("type") or "")
    if not isinstance(request_body, dict):
        return "https://unknown/unknown"
    if kind in ("message", "message_start") or "anthropic_version" in request_body:
        return "https://api.anthropic.com/v1/messages"
    if kind.startswith("response") or ("input" in request_body and "messages" not in request_body):
        return "https://api.openai.com/v1/responses"
    if "contents" in request_body:
        model = str(response_body.get("modelVersion", "unknown"))
        verb = "generateContent" if parse_json(response) is not None else "streamGenerateContent?alt=sse"
        return f"https://generativelanguage.googleapis.com/v1beta/models/{model}:{verb}"
    if "messages" in request_body:
        return "https://unknown/v1/chat/completions"
    return "https://unknown/unknown"


def _load_file(path: Path) -> Any:
    """Return the file's data. Raises ConfigurationError if it is invalid or too large."""
    try:
        data = path.read_bytes()
        if data.startswith(_GZIP):
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise ConfigurationError(f"recordings of more than {_MOST_BYTES >> 20} MiB are not imported")
        text = data.removeprefix(BOM).decode()
        _check_size(text)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, zlib.error, EOFError, OSError, RecursionError) as error:
        raise ConfigurationError(f"{path.name} is not a recording: {type(error).__name__}: {error!s:.300}") from None


def _check_size(text: str) -> None:
    """Raise ConfigurationError if the data is nested too deep, or too large once its aliases are expanded."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if total > _MOST_NODES or len(opened) > MAX_DOCUMENT_DEPTH:
            raise ConfigurationError("the recording is nested too deeply, or is too large, to be imported")
