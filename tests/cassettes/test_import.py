"""Cassettes of other recorders are read, written as ours, and replayed."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing import Cassette
from dragoman.testing.cassettes.exchange import RecordedRequest
from dragoman.testing.cassettes.file import dumps, loads, scrub_recording
from dragoman.testing.cassettes.importer import import_recording
from tests import exchanges
from tests.cassettes import other_recorders

EACH = 2
LEAST = 100


def same_body(ours: bytes, theirs: bytes) -> bool:
    """Equal bytes; for JSON, equal values."""
    if ours == theirs:
        return True
    try:
        return bool(json.loads(ours) == json.loads(theirs))
    except ValueError:
        return False


@pytest.mark.exchanges
@pytest.mark.exhaustive
def test_recordings_of_other_tools_are_imported_and_replayed(tmp_path: Path) -> None:
    """At least a hundred, of five recorders: each request, written again, gets its reply."""
    exchanges.load_or_skip("anthropic")
    played = 0
    for number, (provider, group) in enumerate(other_recorders.sample_recordings(EACH)):
        for style in other_recorders.STYLES:
            if not other_recorders.fits(style, provider, group):
                continue
            name = f"{provider} {group[0].source} as {style}"
            ours = import_recording(other_recorders.write(tmp_path, style, f"{number}-{style}", group))
            target = tmp_path / f"ours-{number}-{style}.yaml"
            target.write_text(dumps(scrub_recording(ours)), encoding="utf-8")
            tape = Cassette.load(target)
            for each in reversed(group):
                request = RecordedRequest(each.method, each.url_path, json.dumps(each.request, indent=1).encode())
                found = tape.play(request)
                alike = [other.body for other in group if other.request == each.request]
                assert found.response.status == each.status, name
                assert any(same_body(found.response.body, body) for body in alike), name
            assert tape.unplayed == 0, name
            if style != "langchain":
                assert loads(target.read_text(encoding="utf-8")).recorded == datetime.date(2026, 2, 3)
            played += 1
    assert played >= LEAST, played


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "a: 1", "interactions: 3", "interactions: [{}]", "interactions: [{request: 1, response: 2}]",
        "!!python/object/apply:os.system [x]", "{", "requests: [1]\nresponses: []", "http_interactions: [1]",
        "interactions: " + "[" * 400, "a: &a [x,x]\nb: &b [" + "*a," * 2000 + "]\nc: [" + "*b," * 2000 + "]",
        "\x00", "interactions: [{request: {method: P, uri: u}, response: {status: {code: x}}}]",
    ],
)  # fmt: skip
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    """Code in a file is never run, and few lines never expand to gigabytes."""
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError):
        import_recording(path)


def test_rare_forms_are_read(tmp_path: Path) -> None:
    """Rare forms are read: vcrpy's older form for httpx, its buffers and tuples, and Ruby's."""
    reply = '{"ok": true}'
    older: dict[str, Any] = {"status_code": 200, "headers": {"content-type": "application/json"}, "content": reply}
    request = {"method": "post", "uri": "http://h/x?key=secret"}
    encoded = {"base64_string": "eyJvayI6IHRydWV9"}
    files = {
        "older": {"interactions": [{"request": {**request, "body": "{}"}, "response": older}]},
        "ruby": {
            "http_interactions": [
                {
                    "request": {**request, "body": {"string": "{}"}},
                    "response": {"status": {"code": 200}, "headers": {}, "body": encoded},
                }
            ]
        },
    }
    for name, data in files.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(data), encoding="utf-8")
        (exchange,) = import_recording(path).exchanges
        assert (exchange.request.method, exchange.request.path, exchange.request.body) == ("POST", "/x", b"{}")
        assert (exchange.response.status, exchange.response.body) == (200, reply.encode())
    unparsed = {"status": {"code": 200}, "headers": {}, "parsed_body": None, "body": {"string": reply}}
    path = tmp_path / "unparsed.yaml"
    path.write_text(json.dumps({"interactions": [{"request": request, "response": unparsed}]}), encoding="utf-8")
    assert import_recording(path).exchanges[0].response.body == reply.encode()
    path = tmp_path / "buffer.yaml"
    path.write_text(
        "interactions:\n- request:\n    method: !!python/unicode POST\n    uri: http://h/x\n    headers: {}\n"
        "    body: !!python/object/new:_io.BytesIO\n      state: !!python/tuple [!!binary e30=, 0, null]\n"
        "  response:\n    status: {code: 200}\n    headers: {}\n    body: {string: ''}\n",
        encoding="utf-8",
    )
    (exchange,) = import_recording(path).exchanges
    assert exchange.request.body == b"{}"
