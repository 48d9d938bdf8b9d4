"""Bodies and files: whatever was recorded comes back, byte for byte, and a stream is one event per line."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing import cassette
from dragoman.testing.cassettes.body import decode_body, encode_body
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.file import describe_reply, dump_exchanges, load_exchanges
from dragoman.testing.faults import Framing, split_events
from tests import exchanges
from tests.unit.testing.sample_streams import BODIES

ODD = [
    "data: 1\u2028\n\n",
    "data: \x85\n\n",
    "data: ⏎ x\n\n",
    "data: 1 \n\n",
    "data: \U0001f600\n\n",
    ": ping\n\n",
    "data: 1",
]

pieces = st.sampled_from(
    [*ODD, "event: a\ndata: {}\n\n", "data: 1\r\n\r\n", "\n", "{}\n", '{"a": 1}', " ", "\x00", "⏎"]
)
bodies = st.one_of(st.binary(max_size=60), st.lists(pieces, max_size=6).map(lambda each: "".join(each).encode()))


def round_trip(body: bytes) -> bytes:
    exchange = Exchange(RecordedRequest("POST", "/x"), RecordedResponse(200, body))
    _, (back,) = load_exchanges(dump_exchanges([exchange], server="s"))
    return back.response.body


def is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


@given(bodies)
def test_a_body_comes_back(body: bytes) -> None:
    back = round_trip(body)
    assert back == body or json.loads(back) == json.loads(body)


@pytest.mark.parametrize(
    ("framing", "form"),
    [(Framing.SSE, "events"), (Framing.LINES, "lines"), (Framing.ARRAY, "json"), (Framing.AWS, "aws")],
)
def test_a_stream_is_one_event_per_line(framing: Framing, form: str) -> None:
    """In every framing that a person can read: also in AWS's, whose lengths and checksums are recomputed."""
    body = BODIES[framing]
    fields = encode_body(body)
    assert list(fields) == [form]
    if form != "json":
        assert fields[form].count("\n") == len(split_events(body))
        assert decode_body(fields) == body


def test_line_ends_are_kept() -> None:
    """CR LF throughout is noted once; a stream with mixed ends is kept as it is."""
    assert encode_body(b"data: 1\r\n\r\ndata: 2\r\n\r\n") == {"line_end": "crlf", "events": "data: 1\ndata: 2\n"}
    assert encode_body(b"data: 1\r\n\r\ndata: 2\n\n") == {"stream": ["data: 1\r\n\r\n", "data: 2\n\n"]}


def test_binary_bodies_are_base64() -> None:
    """A picture, and an AWS message that is truncated or has headers that are not texts."""
    whole = BODIES[Framing.AWS]
    for body in (b"\x89PNG\xff", whole[:-3], whole[:20] + b"\xff" + whole[21:]):
        assert list(encode_body(body)) == ["base64"]
        assert round_trip(body) == body


@pytest.mark.exchanges
def test_recorded_bodies_come_back() -> None:
    """Binary streams and texts of every wire, a sample of each."""
    exchanges.load_or_skip("anthropic")
    forms = set()
    for provider in ("anthropic", "bedrock", "ollama", "openai-chat", "openrouter", "google"):
        for each in [each for each in exchanges.load(provider) if each.streamed][::10]:
            fields = encode_body(each.body)
            forms |= set(fields)
            assert decode_body(fields) == each.body
    assert {"events", "lines", "aws"} <= forms
    assert "base64" not in forms


@pytest.mark.parametrize(
    "text",
    [
        "format: 2\nserver: s\nrecorded: soon\nexchanges: []",
        "format: 2\nserver: s\nexchanges:\n- request: {method: P, path: /, base64: '*'}\n  response: {status: 200}",
        "format: 2\nserver: s\nexchanges:\n- request: {method: P, path: /, events: 3}\n  response: {status: 200}",
        "format: 2\nserver: s\nadapters: 3\nexchanges: []",
        "format: 3\nserver: s\nexchanges: []",
    ],
)
def test_malformed_cassettes_are_refused(text: str) -> None:
    """Malformed cassettes are refused with our own error, without a traceback of the YAML library."""
    with pytest.raises(ConfigurationError, match="this is not a cassette"):
        load_exchanges(text)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/messages", b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}', "Error] busy"),
        ("/v1/embeddings", b"{}", None),
        ("/v1/messages/count_tokens", b'{"input_tokens":3}', None),
    ],
)
def test_a_reply_is_described(path: str, body: bytes, words: str | None) -> None:
    """An error by its class; fields that no adapter reads are left out."""
    status = 529 if words else 200
    found = describe_reply(Exchange(RecordedRequest("POST", path, b"{}"), RecordedResponse(status, body)))
    assert found is None if words is None else words in str(found)


def test_an_unreadable_file_is_not_overwritten(tmp_path: Path) -> None:
    """It may be the only copy."""
    path = tmp_path / "c.yaml"
    path.write_text("format: 9", encoding="utf-8")
    with pytest.raises(ConfigurationError), cassette(path, "new_episodes"):
        pass
    assert path.read_text(encoding="utf-8") == "format: 9"
