"""A folder of cassettes: what a server writes that records its traffic, and replays it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.testing import CassetteMissError
from dragoman.testing.cassettes.file import RecordedResponse, loads
from dragoman.testing.cassettes.folder import CassetteReader, CassetteWriter
from dragoman.testing.cassettes.secrets import SecretFoundError

URL = "http://server.test/v1/chat/completions"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer sk-secret-" + "a1B2" * 8, "x-team": "red"}


def question(text: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


def reply(text: str) -> RecordedResponse:
    body = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}).encode()
    return RecordedResponse(200, body, {"Content-Type": "application/json", "Set-Cookie": "a=b"})


def test_exchanges_return_in_their_order_and_with_allowed_headers_only(tmp_path: Path) -> None:
    writer = CassetteWriter(tmp_path / "tapes", server="test")
    for text in ("one", "two"):
        writer.write(writer.new_number(), "POST", f"{URL}?key=k", HEADERS, question("Hi"), reply(text))
    again = CassetteWriter(tmp_path / "tapes", server="test")
    assert again.new_number() == 3
    reader = CassetteReader(tmp_path / "tapes")
    found = [reader.find("POST", "http://elsewhere" + URL[18:], question("Hi")) for _ in range(3)]
    assert [json.loads(each.body)["choices"][0]["message"]["content"] for each in found] == ["one", "two", "two"]
    assert found[0].headers == {"content-type": "application/json"}
    with pytest.raises(CassetteMissError, match="'Hi' -> 'Ho'"):  # all were replayed, and may be again
        reader.find("POST", URL, question("Ho"))
    (first, *_) = sorted((tmp_path / "tapes").iterdir())
    assert first.name == "00001-completions.yaml"
    (exchange,) = loads(first.read_text()).exchanges
    assert dict(exchange.request.headers) == {"content-type": "application/json"}
    assert "key=" not in exchange.request.path


def test_writers_of_several_processes_lose_nothing(tmp_path: Path) -> None:
    """Each begins with the same number."""
    writers = [CassetteWriter(tmp_path, server="test") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for writer in writers:
                pool.submit(writer.write, writer.new_number(), "POST", URL, HEADERS, question("Hi"), reply("one"))
    assert len(list(tmp_path.iterdir())) == 12
    assert len({path.name for path in tmp_path.iterdir()}) == 12


def test_a_secret_that_cannot_be_masked_is_not_written(tmp_path: Path) -> None:
    """One that is split over the events of a stream."""
    secret = "ghp_" + "aB3d" * 9
    events = [
        json.dumps({"choices": [{"index": 0, "delta": {"content": part}}]}) for part in (secret[:12], secret[12:])
    ]
    stream = "".join(f"data: {event}\n\n" for event in events).encode()
    response = RecordedResponse(200, stream, {"content-type": "text/event-stream"})
    writer = CassetteWriter(tmp_path, server="test")
    with pytest.raises(SecretFoundError):
        writer.write(1, "POST", URL, HEADERS, question("Hi"), response)
    assert list(tmp_path.iterdir()) == []
