"""Keys of forty formats in every place of an exchange: refused, and shown nowhere."""

import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import httpx
import pytest

from dragoman.testing import cassette
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import Recording, dumps, loads, scrub_recording
from dragoman.testing.cassettes.leaks import find_leaks
from dragoman.testing.cassettes.secrets import Scanner, SecretFoundError, is_placeholder, known_values
from tests import exchanges
from tests.cassettes.planted_keys import DROPPED, ISSUERS, PLACES, Place, key


@pytest.fixture(scope="module")
def log_lines() -> Iterator[list[str]]:
    """Everything that anything logs, at the finest level."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.getMessage()} {record.__dict__}")

    logger, listener = logging.getLogger(), Listener(logging.DEBUG)
    before = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    yield lines
    logger.setLevel(before)
    logger.removeHandler(listener)


def record(path: Path, place: Place, secret: str) -> list[str]:
    """Records one exchange with the key in its place; returns the reprs of what recorded it."""
    request, response = place(secret)
    shown = []
    with cassette(path, "all") as recorder, httpx.Client(transport=httpx.MockTransport(lambda _: response)) as client:
        client.send(request)
        shown += [repr(recorder), repr(recorder.recorded), repr(recorder.scanner)]
    return shown


def frames(trace: TracebackType | None) -> Iterator[str]:
    """The local names of frames outside of the test, as debuggers and `pytest -l` show them."""
    while trace:
        if "/tests/" not in trace.tb_frame.f_code.co_filename:
            yield repr(trace.tb_frame.f_locals)
        trace = trace.tb_next


@pytest.mark.parametrize("issuer", ISSUERS)
def test_a_key_is_refused_in_every_place(issuer: str, tmp_path: Path, log_lines: list[str]) -> None:
    """Nothing is written, and no log, repr, error or traceback shows it."""
    for number, (name, place) in enumerate(PLACES.items()):
        secret = key(issuer, number)
        log_lines.clear()
        with pytest.raises(SecretFoundError) as caught:
            record(tmp_path / "c.yaml", place, secret)
        error = caught.value
        shown = [str(error), repr(error), repr(error.findings), pickle.dumps(error).decode("latin-1")]
        shown += [*log_lines, *frames(error.__traceback__), *traceback.format_exception(error)]
        assert [text for text in shown if secret in text] == [], name
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", DROPPED)
def test_keys_in_dropped_headers_are_not_refused(place: str, tmp_path: Path, log_lines: list[str]) -> None:
    """No cassette holds these headers: the recording is written without them."""
    secret = key("Anthropic", 7)
    shown = record(tmp_path / "c.yaml", DROPPED[place], secret)
    assert [text for text in [*shown, *log_lines, (tmp_path / "c.yaml").read_text()] if secret in text] == []


def test_a_key_without_a_format_is_known_by_its_use(tmp_path: Path) -> None:
    """A reply that repeats the sent key is refused."""
    plain = "correcthorsebatterystaple"

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401, text=f"who is {request.headers['x-api-key']}?")

    with (
        pytest.raises(SecretFoundError, match="a key that was in use"),
        cassette(tmp_path / "c.yaml", "all"),
        httpx.Client(transport=httpx.MockTransport(answer)) as client,
    ):
        client.post("https://api.anthropic.com/v1/messages", json={}, headers={"x-api-key": plain})
    assert known_values({"SOME_API_KEY": "abcdefgh12345678", "HOME": "abcdefgh12345678"}) == {"abcdefgh12345678"}


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("api_key", "0123456789abcdef", True), ("x-api-key", "whatever1", True), ("client_secret", "whatever1", True),
        ("aws_secret_access_key", "whatever1", True), ("password", "hunter22", True), ("Authorization", "xyz789", True),
        ("token", " Paris", False), ("max_tokens", "10000000", False), ("token", "a1b2c3d4e5f6a7b8c9d0e1f2", True),
        ("api_key", "YOUR_API_KEY", False), ("password", "a password with spaces", False), ("signature", "Ev==", False),
    ],
)  # fmt: skip
def test_names_of_secrets(name: str, value: str, found: bool) -> None:
    """A value with such a name is secret, unless it is a placeholder."""
    assert bool(Scanner().scan_json({"a": [{name: value}]}, "$")) is found
    assert bool(Scanner().scan_query(f"/x?{name}={value}", "path")) is found


def test_a_placeholder_is_no_secret() -> None:
    """Public cassettes have `MASKED` instead of a key; a real key with such a word in it has digits as well."""
    assert is_placeholder("sk-MASKED")
    assert is_placeholder("sk-ant-REDACTED-1")
    assert not is_placeholder(key("OpenAI", 1) + "test")


def test_scrubbing_masks_findings_only() -> None:
    """Then the file can be written; bytes without findings are the same ones."""
    secret = key("Groq", 5)
    body = b'{"a" : "' + secret.encode() + b'", "password": "swordfish", "b": [1.50]}'
    stream = b'data: {"t":  "x"}\n\ndata: {"t": "' + secret.encode() + b'"}\n\n'
    dirty = [
        Exchange(RecordedRequest("POST", f"/x?api_key={secret}&y=1", body), RecordedResponse(200, stream)),
        Exchange(RecordedRequest("POST", "/x", secret.encode()), RecordedResponse(200, b'{"t":  1}')),
    ]
    with pytest.raises(SecretFoundError):
        dumps(Recording("s", dirty))
    clean = scrub_recording(Recording("s", dirty))
    text = dumps(clean)
    assert secret not in text
    assert "swordfish" not in text
    first, second = clean.exchanges
    assert first.request.path == "/x?api_key=%2A%2A%2A&y=1"
    assert first.response.body == b'data: {"t":  "x"}\n\ndata: {"t":"***"}\n\n'
    assert second.response.body == b'{"t":  1}'
    assert [each.request.body for each in loads(text).exchanges][1] == b"***"


@pytest.mark.exhaustive
@pytest.mark.exchanges
def test_recorded_traffic_is_rarely_taken_for_a_secret() -> None:
    """Under one in a hundred of a sample over all wires, with the passwords that tools were given."""
    exchanges.load_or_skip("anthropic")
    sample = [each for name in ("anthropic", "openai-chat", "ollama", "groq") for each in exchanges.load(name)[::20]]
    found = [
        each.id
        for each in sample
        if find_leaks([Exchange(RecordedRequest("POST", "/"), RecordedResponse(200, each.body))], Scanner())
    ]
    assert len(found) < len(sample) / 100, found
