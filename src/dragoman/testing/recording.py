"""The cassette format for vcrpy and pytest-recording: a serializer, a matcher and what may be recorded.

Use it in a conftest::

    from dragoman.testing import recording

    def pytest_recording_configure(config, vcr):
        recording.register(vcr, server="llama-server")

    @pytest.fixture(scope="session")
    def vcr_config():
        return recording.config()
"""

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from dragoman.testing import cassette_file
from dragoman.testing.cassette_file import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes import differences

SERIALIZER = "yaml"
"""vcrpy's own name, because pytest-recording makes it the ending of the file."""
MATCHER = "meaning"

_HOST = "http://recorded"


def register(vcr: Any, *, server: str) -> None:
    """Makes the serializer, for recordings of that server, and the matcher known to a `vcr.VCR`."""
    vcr.register_serializer(
        SERIALIZER,
        SimpleNamespace(serialize=lambda cassette: serialize(cassette, server), deserialize=deserialize),
    )
    vcr.register_matcher(MATCHER, matches)


def config() -> dict[str, Any]:
    """Settings for vcrpy: our format, requests matched by method, path and body, headers by an allow-list."""
    return {
        "serializer": SERIALIZER,
        "match_on": [MATCHER],
        "decode_compressed_response": True,
        "before_record_request": _scrub_request,
        "before_record_response": _scrub_response,
    }


def serialize(cassette: dict[str, Any], server: str) -> str:
    """vcrpy's cassette as our file."""
    exchanges = [
        Exchange(
            RecordedRequest(
                item["request"]["method"],
                _path(item["request"]["uri"]),
                _as_bytes(item["request"]["body"]),
                _flat(item["request"]["headers"]),
            ),
            RecordedResponse(
                item["response"]["status"]["code"],
                _as_bytes(item["response"]["body"]["string"]),
                _flat(item["response"]["headers"]),
            ),
        )
        for item in cassette["interactions"]
    ]
    return cassette_file.write(exchanges, server=server)


def deserialize(text: str) -> dict[str, Any]:
    """Our file as vcrpy's cassette."""
    _, exchanges = cassette_file.read(text)
    return {
        "version": 1,
        "interactions": [
            {
                "request": {
                    "method": exchange.request.method,
                    "uri": _HOST + exchange.request.path,
                    "body": exchange.request.body,
                    "headers": {name: [value] for name, value in exchange.request.headers.items()},
                },
                "response": {
                    "status": {"code": exchange.response.status, "message": ""},
                    "headers": {name: [value] for name, value in exchange.response.headers.items()},
                    "body": {"string": exchange.response.body},
                },
            }
            for exchange in exchanges
        ],
    }


def matches(asked: Any, recorded: Any) -> None:
    """vcrpy's matcher: raises AssertionError with the differences."""
    found = differences(_request(recorded), _request(asked))
    assert not found, "\n".join(found)


def _request(request: Any) -> RecordedRequest:
    return RecordedRequest(request.method, _path(request.uri), _as_bytes(request.body))


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _scrub_request(request: Any) -> Any:
    for name in list(request.headers):
        if name.lower() not in cassette_file.REQUEST_HEADERS:
            del request.headers[name]
    return request


def _scrub_response(response: dict[str, Any]) -> dict[str, Any]:
    kept = {n: v for n, v in response["headers"].items() if n.lower() in cassette_file.RESPONSE_HEADERS}
    return {**response, "headers": kept}


def _flat(headers: dict[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else ", ".join(value) for name, value in headers.items()}


def _as_bytes(body: Any) -> bytes:
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else bytes(body)
