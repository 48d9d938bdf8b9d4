"""The cassette format for vcrpy and pytest-recording: a serializer, a matcher and what may be recorded.

The pytest plugin needs none of this: see ``docs/testing.md``. For tests that have pytest-recording's own mark, write
into a conftest::

    from dragoman.testing.cassettes import vcrpy

    def pytest_recording_configure(config, vcr):
        vcrpy.register(vcr, server="llama-server")

    @pytest.fixture(scope="session")
    def vcr_config():
        return vcrpy.config()
"""

import datetime
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from dragoman.testing.cassettes import file
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse, provider_of_uri
from dragoman.testing.cassettes.matcher import differences

SERIALIZER = "yaml"
"""vcrpy's own name, because pytest-recording uses it as the file's suffix."""
MATCHER = "meaning"

_HOST = "http://recorded"
KEY_ARGUMENTS = frozenset({"key", "access_token"})
"""Query arguments that can contain the caller's key. They are not recorded."""


def register(vcr: Any, *, server: str) -> None:
    """Register the serializer, for recordings of that server, and the matcher with a `vcr.VCR`."""
    vcr.register_serializer(
        SERIALIZER,
        SimpleNamespace(serialize=lambda cassette: serialize(cassette, server), deserialize=deserialize),
    )
    vcr.register_matcher(MATCHER, matches)


def config() -> dict[str, Any]:
    """Return settings for vcrpy: our format, our matcher, and allow-listed headers."""
    return {
        "serializer": SERIALIZER,
        "match_on": [MATCHER],
        "decode_compressed_response": True,
        "before_record_request": _scrub_request,
        "before_record_response": _scrub_response,
    }


def serialize(cassette: dict[str, Any], server: str) -> str:
    """Convert vcrpy's cassette to our file. Raises SecretFoundError."""
    exchanges = [
        Exchange(to_recorded_request(**item["request"]), to_recorded_response(item["response"]))
        for item in cassette["interactions"]
    ]
    return file.dump_exchanges(exchanges, server=server, recorded=today())


def deserialize(text: str) -> dict[str, Any]:
    """Convert our file to vcrpy's cassette."""
    return to_vcr(file.load_exchanges(text)[1])


def to_vcr(
    exchanges: Iterable[Exchange], origin: Callable[[str | None], str] = lambda provider: _HOST
) -> dict[str, Any]:
    """Return exchanges as vcrpy's cassette. ``origin`` returns the scheme and the host for a provider."""
    interactions = []
    for exchange in exchanges:
        sent = exchange.request
        request = {
            "method": sent.method,
            "uri": origin(sent.provider) + sent.path,
            "body": sent.body,
            "headers": {name: [value] for name, value in sent.headers.items()},
        }
        interactions.append({"request": request, "response": to_vcr_response(exchange.response)})
    return {"version": 1, "interactions": interactions}


def replayed_requests(cassette: Any) -> list[RecordedRequest]:
    """Return the requests of a vcrpy cassette that replays a file in our format, and records nothing; else none."""
    if cassette is None or not cassette.write_protected:
        return []
    requests = [each for each in cassette.requests if each.uri.startswith(_HOST)]
    return [to_recorded_request(each.method, each.uri, each.body, {}) for each in requests]


def matches(request: Any, recorded: Any) -> None:
    """Match requests for vcrpy: raise AssertionError with the differences."""
    found = differences(
        to_recorded_request(recorded.method, recorded.uri, recorded.body, {}),
        to_recorded_request(request.method, request.uri, request.body, {}),
    )
    assert not found, "\n".join(found)


def to_recorded_request(method: str, uri: str, body: Any, headers: Mapping[str, Any]) -> RecordedRequest:
    """Convert vcrpy's request: allow-listed headers, and the URL without its host and the caller's key."""
    path = strip_host(uri)
    kept = file.keep_headers(flatten_headers(headers), file.REQUEST_HEADERS)
    return RecordedRequest(method, path, to_bytes(body), kept, provider_of_uri(uri, path), urlsplit(uri).hostname)


def to_recorded_response(response: Mapping[str, Any]) -> RecordedResponse:
    """Convert vcrpy's response, whose body is decompressed."""
    kept = file.keep_headers(flatten_headers(response["headers"]), file.RESPONSE_HEADERS)
    return RecordedResponse(response["status"]["code"], to_bytes(response["body"]["string"]), kept)


def to_vcr_response(response: RecordedResponse) -> dict[str, Any]:
    """Convert a response to the form that vcrpy replays."""
    return {
        "status": {"code": response.status, "message": ""},
        "headers": {name: [value] for name, value in response.headers.items()},
        "body": {"string": response.body},
    }


def strip_host(uri: str) -> str:
    """Return a URL without its host and without arguments that contain a key."""
    parts = urlsplit(uri)
    if not KEY_ARGUMENTS.isdisjoint(name for name, _ in parse_qsl(parts.query)):
        remaining_pairs = [(name, value) for name, value in parse_qsl(parts.query, True) if name not in KEY_ARGUMENTS]
        return parts.path + (f"?{urlencode(remaining_pairs)}" if remaining_pairs else "")
    return parts.path + (f"?{parts.query}" if parts.query else "")


def flatten_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return headers with one text value each. Several values are joined by commas; botocore's are bytes."""
    return {
        _to_text(name): ", ".join(map(_to_text, value)) if isinstance(value, list | tuple) else _to_text(value)
        for name, value in headers.items()
    }


def _to_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def to_bytes(body: Any) -> bytes:
    """Convert a recorder's body to bytes: bytes, a text, None, a file, or chunks."""
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    return b"".join(map(to_bytes, [body.read()] if hasattr(body, "read") else body))


def today() -> datetime.date:
    return datetime.datetime.now(datetime.UTC).date()


def _scrub_request(request: Any) -> Any:
    for name in list(request.headers):
        if name.lower() not in file.REQUEST_HEADERS:
            del request.headers[name]
    return request


def _scrub_response(response: dict[str, Any]) -> dict[str, Any]:
    kept = {n: v for n, v in response["headers"].items() if n.lower() in file.RESPONSE_HEADERS}
    return {**response, "headers": kept}
