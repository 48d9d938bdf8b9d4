"""A program that is not Python gets cassettes: curl records, and replays without a provider."""

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from dragoman_gateway.app import app_from_configuration
from dragoman_gateway.server.command import use_cassettes
from dragoman_gateway.server.recording import RECORD_VARIABLE, REPLAY_VARIABLE
from tests.gateway.scripted import Answer, Received, Upstream, answer_with, reply
from tests.gateway.serving import serving

CURL = shutil.which("curl")
PROVIDER_KEY = "sk-ant-" + "a1B2" * 8
CLIENT_KEY = "sk-client-" + "c3D4" * 8
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
REFUSALS = {
    "messages": lambda body: (body["type"], body["error"]["type"]) == ("error", "invalid_request_error"),
    "chat": lambda body: body["error"]["type"] == "invalid_request_error" and "code" in body["error"],
}
"""Whether an error has the shape of the wire."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What curl received: the bytes of the body, the status, and the content type."""

    body: bytes
    head: str


def post(url: str, wire: str, text: str, *, stream: bool) -> Reply:
    """Ask with curl, without its own settings and without a proxy."""
    body = {"model": "house", "max_tokens": 100, "stream": stream, "messages": [{"role": "user", "content": text}]}
    command = [CURL or "curl", "--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "120",
               "--header", "content-type: application/json", "--header", f"authorization: Bearer {CLIENT_KEY}",
               "--data-binary", "@-", "--write-out", "%{stderr}%{http_code} %{content_type}",
               url + PATHS[wire]]  # fmt: skip
    done = subprocess.run(command, input=json.dumps(body).encode(), capture_output=True, check=True)
    return Reply(done.stdout, done.stderr.decode())


def numbered() -> Callable[[Received], Answer]:
    """Return a provider whose replies all differ."""
    numbers = iter(range(100))
    return lambda request: answer_with(reply(f"answer-{next(numbers)}"))(request)


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
def test_curl_gets_the_same_bytes_when_the_provider_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Curl gets the same bytes when the provider is gone: whole and streamed, in the provider's wire and in another
    one. A request that was not recorded is an error of the client's wire, and no file has a key.
    """
    tapes, settings = tmp_path / "tapes", tmp_path / "dragoman.toml"
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(settings))
    for name in (RECORD_VARIABLE, REPLAY_VARIABLE):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("ANTHROPIC_API_KEY", PROVIDER_KEY)
    upstream = Upstream()
    upstream.script = numbered()

    def ask(url: str) -> list[Reply]:
        cases = [(wire, stream) for wire in PATHS for stream in (False, True)]
        return [post(url, wire, "Where is Bern?", stream=stream) for wire, stream in cases]

    with ExitStack() as stack:
        provider = stack.enter_context(serving(upstream))
        settings.write_text(f'[gateway.models]\nhouse = "anthropic:m"\n[providers.anthropic]\nbase_url = "{provider}"')
        use_cassettes(tapes, None)
        recorded = ask(stack.enter_context(serving(app_from_configuration())))
    assert {request.headers["x-api-key"] for request in upstream.requests} == {PROVIDER_KEY}
    assert all(f"answer-{number}".encode() in each.body for number, each in enumerate(recorded))

    monkeypatch.setenv(RECORD_VARIABLE, "")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    use_cassettes(None, tapes)
    with serving(app_from_configuration()) as url:
        replayed = ask(url)
        refused = {wire: post(url, wire, "Where is Thun?", stream=True) for wire in PATHS}
    assert replayed == recorded
    for wire, found in refused.items():
        error = json.loads(found.body)
        assert found.head == "400 application/json"
        assert REFUSALS[wire](error), error
        assert "no recorded reply fits" in error["error"]["message"]
        assert "Thun" in error["error"]["message"]
    assert len(upstream.requests) == 4

    files = [path.read_text(encoding="utf-8") for path in tapes.iterdir()]
    assert len(files) == 4
    assert not any(key[7:] in text for text in files for key in (PROVIDER_KEY, CLIENT_KEY))
