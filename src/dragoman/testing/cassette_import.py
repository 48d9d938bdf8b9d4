"""Cassettes of other recorders as ours: plain vcrpy, pydantic-ai's, LangChain's, and those of Ruby's VCR.

What they keep and we do not (hosts, most headers) is left behind. Nothing that was said is changed: a body is decoded,
where it was compressed, and that is all.
"""

import base64
import datetime
import email.utils
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman.adapter import wirejson
from dragoman.adapter.decoding import MALFORMED
from dragoman.adapter.errors import ConfigurationError, MalformedReplyError
from dragoman.testing import cassette_foreign_yaml
from dragoman.testing.cassette_exchange import Exchange, RecordedResponse
from dragoman.testing.cassette_file import RESPONSE_HEADERS, Recording, recording_of
from dragoman.testing.event_bytes import Framing, events_of, framing_of, payload_of
from dragoman.testing.recording import as_bytes, flat, recorded_request

SUFFIXES = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz")
_REDACTED = "**REDACTED**"
_UNKNOWN_HOST = "unknown"


@dataclass(frozen=True, slots=True)
class _Found:
    """One exchange as its recorder wrote it."""

    method: str
    uri: str
    request: bytes
    request_headers: Mapping[str, str]
    status: int
    response: bytes
    response_headers: Mapping[str, str]


def imported(path: Path) -> Recording:
    """Another recorder's file. Its date is that of the replies, where they had one.

    Raises ConfigurationError where the file is of no form that is known.
    """
    data = cassette_foreign_yaml.load(path)
    try:
        found = list(_exchanges(data))
        exchanges = [_exchange(each) for each in found]
    except MALFORMED as error:
        raise ConfigurationError(f"{path.name} is no recording: {type(error).__name__}: {error!s:.300}") from None
    hosts = dict.fromkeys(urlsplit(each.uri).hostname or _UNKNOWN_HOST for each in found)
    dates = [date for each in found if (date := _date(each.response_headers))]
    return recording_of(exchanges, server=", ".join(hosts) or _UNKNOWN_HOST, recorded=min(dates, default=None))


def _exchanges(data: Any) -> Iterator[_Found]:
    if not isinstance(data, Mapping):
        raise ConfigurationError("this is no recording of a form that is known")
    if "interactions" in data:  # vcrpy, pydantic-ai
        for each in data["interactions"]:
            yield _pair(each["request"], each["response"])
    elif "requests" in data and "responses" in data:  # LangChain
        for request, response in zip(data["requests"], data["responses"], strict=True):
            yield _pair(request, response)
    elif "http_interactions" in data:  # Ruby
        for each in data["http_interactions"]:
            yield _pair(each["request"], each["response"])
    else:
        raise ConfigurationError("this is no recording of a form that is known")


def _pair(request: Mapping[str, Any], response: Mapping[str, Any]) -> _Found:
    asked, answered = flat(_lists(request.get("headers"))), flat(_lists(response.get("headers")))
    sent, body = _decoded(_body(request), asked), _decoded(_body(response), answered)
    status = response["status"]["code"] if "status" in response else response["status_code"]
    uri = str(request["uri"])
    if _REDACTED in uri:
        uri = _guessed(sent, body)
    return _Found(str(request["method"]).upper(), uri, sent, asked, int(status), body, answered)


def _lists(headers: Any) -> dict[str, Any]:
    """Headers, without those that the recorder blanked."""
    named = {str(name): value for name, value in (headers or {}).items()}
    return {name: value for name, value in named.items() if value not in (None, _REDACTED, [_REDACTED])}


def _body(message: Mapping[str, Any]) -> bytes:
    if message.get("parsed_body") is not None:  # pydantic-ai
        return json.dumps(message["parsed_body"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    body = message.get("body", message.get("content"))
    if isinstance(body, Mapping):
        if "base64_string" in body:
            return base64.b64decode(body["base64_string"])
        body = body.get("string")
    if isinstance(body, list | dict):
        return wirejson.dumps(body)
    return as_bytes(body)


def _decoded(body: bytes, headers: Mapping[str, str]) -> bytes:
    """A body that was recorded as it was compressed."""
    named = {name.lower(): value for name, value in headers.items()}
    try:
        if body.startswith(b"\x1f\x8b"):
            return gzip.decompress(body)
        if named.get("content-encoding") == "deflate":
            return zlib.decompress(body)
    except (OSError, EOFError, zlib.error):
        pass
    return body


def _exchange(found: _Found) -> Exchange:
    request = recorded_request(found.method, found.uri, found.request, found.request_headers)
    named = {name.lower(): value for name, value in found.response_headers.items()}
    kept = {name: value for name, value in named.items() if name in RESPONSE_HEADERS}
    kept.setdefault("content-type", _type(found.response))
    return Exchange(request, RecordedResponse(found.status, found.response, kept))


def _type(body: bytes) -> str:
    match framing_of(body) if body else None:
        case Framing.AWS:
            return "application/vnd.amazon.eventstream"
        case Framing.SSE:
            return "text/event-stream" if b"data:" in body else "text/plain"
        case Framing.LINES if _json(body) is None:
            return "application/x-ndjson"
    return "application/json"


def _guessed(request: bytes, response: bytes) -> str:
    """The address of a request whose recorder blanked it, told by what was said."""
    asked = _json(request)
    events = [_json(payload_of(event)) for event in events_of(response)[:3]] if response else []
    answered = next((each for each in [_json(response), *events] if isinstance(each, dict)), {})
    kind = str(answered.get("object") or answered.get("type") or "")
    if not isinstance(asked, dict):
        return "https://unknown/unknown"
    if kind in ("message", "message_start") or "anthropic_version" in asked:
        return "https://api.anthropic.com/v1/messages"
    if kind.startswith("response") or ("input" in asked and "messages" not in asked):
        return "https://api.openai.com/v1/responses"
    if "contents" in asked:
        model = str(answered.get("modelVersion", "unknown"))
        verb = "generateContent" if _json(response) is not None else "streamGenerateContent?alt=sse"
        return f"https://generativelanguage.googleapis.com/v1beta/models/{model}:{verb}"
    if "messages" in asked:
        return "https://unknown/v1/chat/completions"
    return "https://unknown/unknown"


def _json(data: bytes) -> Any:
    try:
        return wirejson.loads(data) if data else None
    except MalformedReplyError:
        return None


def _date(headers: Mapping[str, str]) -> datetime.date | None:
    said = {name.lower(): value for name, value in headers.items()}.get("date")
    try:
        return email.utils.parsedate_to_datetime(said).date() if said else None
    except ValueError:
        return None
