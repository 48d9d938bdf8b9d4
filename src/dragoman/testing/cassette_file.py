"""The cassette file: recorded exchanges as YAML that a person can read and review.

::

    format: 1
    server: llama-server            # who really answered
    exchanges:
    - request:
        method: POST
        path: /v1/chat/completions  # without host: a cassette does not care where it was recorded
        json: {...}                 # the body, parsed
      response:
        status: 200
        headers: {content-type: text/event-stream}
        stream:                     # one event an entry, joined without a separator; or `json`, or `text`
        - |+
          data: {...}

Headers are kept only where they are on a list of harmless ones, so no key, cookie or organisation gets in; a path or
a body that holds something shaped like a key is refused.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from dragoman.adapter import wirejson
from dragoman.adapter.decoding import MALFORMED
from dragoman.adapter.errors import SECRET, ConfigurationError, MalformedReplyError, RequestError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH

FORMAT = 1

REQUEST_HEADERS = frozenset({"content-type", "accept", "anthropic-version", "anthropic-beta"})
RESPONSE_HEADERS = frozenset(
    {"content-type", "request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry"}
)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_EVENT_END = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedResponse:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exchange:
    request: RecordedRequest
    response: RecordedResponse


def write(exchanges: list[Exchange], *, server: str) -> str:
    """The file's text. Raises ConfigurationError where a body is no text or anything is shaped like a key."""
    for exchange in exchanges:
        _refuse_keys(exchange.request.path, "a path")
    return yaml.dump(
        {
            "format": FORMAT,
            "server": server,
            "exchanges": [
                {
                    "request": {
                        "method": exchange.request.method,
                        "path": exchange.request.path,
                        **_headers(exchange.request.headers, REQUEST_HEADERS),
                        **_body(exchange.request.body),
                    },
                    "response": {
                        "status": exchange.response.status,
                        **_headers(exchange.response.headers, RESPONSE_HEADERS),
                        **_body(exchange.response.body),
                    },
                }
                for exchange in exchanges
            ],
        },
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=120,
    )


def read(text: str) -> tuple[str, list[Exchange]]:
    """The server's name and the exchanges. Data only: the loader makes no objects. Raises ConfigurationError."""
    try:
        _check_shape(text)
        data = yaml.load(text, Loader=_LOADER)
        if data["format"] != FORMAT:
            raise ConfigurationError(f"this is no cassette of format {FORMAT}")
        exchanges = [
            Exchange(
                RecordedRequest(
                    item["request"]["method"],
                    item["request"]["path"],
                    _bytes(item["request"]),
                    item["request"].get("headers", {}),
                ),
                RecordedResponse(
                    item["response"]["status"], _bytes(item["response"]), item["response"].get("headers", {})
                ),
            )
            for item in data["exchanges"]
        ]
    except (yaml.YAMLError, RequestError, *MALFORMED) as error:
        raise ConfigurationError(f"this is no cassette: {type(error).__name__}: {error!s:.400}") from None
    return data["server"], exchanges


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


def _headers(headers: Mapping[str, str], allowed: frozenset[str]) -> dict[str, Any]:
    kept = {name.lower(): value for name, value in headers.items() if name.lower() in allowed}
    for value in kept.values():
        _refuse_keys(value, "a header")
    return {"headers": dict(sorted(kept.items()))} if kept else {}


def _refuse_keys(text: str, place: str) -> None:
    if found := SECRET.search(text):
        raise ConfigurationError(f"{place} holds {found[0][:4]}…, which is shaped like a key: it is not written")


def _body(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError("a body is no text in UTF-8: a cassette cannot hold it") from None
    _refuse_keys(text, "a body")
    if not text:
        return {}
    try:
        return {"json": wirejson.loads(text)}
    except MalformedReplyError:
        pass
    events = [piece for piece in _EVENT_END.split(text) if piece]
    return {"stream": events} if len(events) > 1 else {"text": text}


def _bytes(item: Mapping[str, Any]) -> bytes:
    if "json" in item:
        return wirejson.dumps(item["json"])
    text: str = "".join(item["stream"]) if "stream" in item else item.get("text", "")
    return text.encode()


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks; no anchors, which would tie distant bodies together."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
