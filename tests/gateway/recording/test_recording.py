"""A gateway records what passes, and answers from the recording without any provider."""

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from dragoman import ConfigurationError
from dragoman.testing import Cassette
from dragoman.testing.faults.server import FaultyServer, json_reply, sse_reply
from dragoman_gateway import GatewaySettings
from dragoman_gateway.app import app_from_configuration
from dragoman_gateway.server.command import use_cassettes
from dragoman_gateway.server.recording import RECORD_VARIABLE, REPLAY_VARIABLE, replay_app
from tests.gateway.serving import serving
from tests.gateway.upstream import stream_bytes, whole_reply

PROVIDER_KEY = "sk-ant-" + "a1B2" * 8
CLIENT_KEY = "sk-client-" + "c3D4" * 8
QUESTIONS = ["Where is Bern?", "And Thun?"]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the recording; the configuration names a provider at an address of the test."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", PROVIDER_KEY)
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(tmp_path / "dragoman.toml"))
    for name in (RECORD_VARIABLE, REPLAY_VARIABLE):
        monkeypatch.setenv(name, "")
    return tmp_path / "tapes"


def configure(folder: Path, url: str) -> None:
    text = f'[gateway.models]\nhouse = "anthropic:m"\n[providers.anthropic]\nbase_url = "{url}"\n'
    (folder.parent / "dragoman.toml").write_text(text)


def ask(url: str) -> list[Any]:
    """Return the answers to all questions, whole and streamed, and those that repeat a question."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key=CLIENT_KEY, max_retries=0) as client:
        answers: list[Any] = []
        for text in (*QUESTIONS, QUESTIONS[0]):
            question = [{"role": "user", "content": text}]
            answers.append(client.chat.completions.create(model="house", messages=question).choices)
            stream = client.chat.completions.create(model="house", messages=question, stream=True)
            answers.append([chunk.model_dump(exclude={"created"}) for chunk in stream])
        try:
            client.chat.completions.create(model="hose", messages=question)
        except openai.NotFoundError as error:
            answers.append(error.body)
        answers.append([model.id for model in client.models.list()])
    return answers


def test_a_program_gets_the_same_answers_without_a_provider(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def answer(request: Any) -> Any:
        text = f"answer {next(numbers)}"
        if json.loads(request.body).get("stream"):
            return sse_reply(stream_bytes("messages", "an ", text))
        return whole_reply("messages", text)

    with FaultyServer(answer) as provider:
        configure(configured, provider.url)
        use_cassettes(configured, None)
        with serving(app_from_configuration()) as url:
            first = ask(url)
            httpx.get(f"{url}/health")
    files = sorted(configured.iterdir())
    texts = "".join(path.read_text() for path in files)
    monkeypatch.setenv(RECORD_VARIABLE, "")
    use_cassettes(None, configured)
    with serving(app_from_configuration()) as url:
        again = ask(url)
    assert again == first
    assert len(files) == 2 * 3 + 2
    assert files[0].name == "00001-completions.yaml"
    assert "answer 0" in texts
    assert not any(secret in texts for secret in (PROVIDER_KEY, CLIENT_KEY, PROVIDER_KEY[8:], CLIENT_KEY[10:]))
    assert all(Cassette.load(path).exchanges for path in files)


def test_equal_requests_get_their_replies_in_order_and_the_last_one_again(configured: Path) -> None:
    body = {"model": "house", "messages": [{"role": "user", "content": "Hi"}]}
    replies = [whole_reply("messages", "one"), whole_reply("messages", "two")]
    with FaultyServer(replies) as provider:
        configure(configured, provider.url)
        use_cassettes(configured, None)
        with serving(app_from_configuration()) as url:
            for _ in replies:
                httpx.post(f"{url}/v1/chat/completions?api-version=1", json=body)
    with serving(replay_app(configured)) as url:
        again = [httpx.post(f"{url}/v1/chat/completions?api-version=1", json=body).json() for _ in range(3)]
        missing = httpx.post(f"{url}/v1/messages", json={**body, "max_tokens": 3})
        other = httpx.post(f"{url}/v1beta/models/house:generateContent", json={"contents": []})
        garbage = httpx.post(f"{url}/v1/chat/completions", content=b"{")
        health = httpx.get(f"{url}/health")
    assert [each["choices"][0]["message"]["content"] for each in again] == ["one", "two", "two"]
    assert (missing.status_code, missing.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "no recorded reply fits" in missing.json()["error"]["message"]
    assert other.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert garbage.status_code == 400
    assert health.text == "ok"


def test_labels_of_one_s_own_are_a_setting(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(build: int, text: str = "Hi") -> dict[str, Any]:
        return {
            "model": "house",
            "user": f"build-{build}",
            "messages": [{"role": "user", "content": f"#{build}: {text}"}],
        }

    with FaultyServer(whole_reply("messages", "one")) as provider:
        configure(configured, provider.url)
        use_cassettes(configured, None)
        with serving(app_from_configuration()) as url:
            httpx.post(f"{url}/v1/chat/completions", json=body(17))
    with (configured.parent / "dragoman.toml").open("a") as file:
        file.write("[gateway.replay]\nignored_fields = ['user']\nignored_patterns = ['^#([0-9]+)']\n")
    monkeypatch.setenv(RECORD_VARIABLE, "")
    use_cassettes(None, configured)
    with serving(app_from_configuration()) as url:
        statuses = [
            httpx.post(f"{url}/v1/chat/completions", json=each).status_code
            for each in (body(18), body(18), body(18, "Bye"))
        ]
    assert statuses == [200, 200, 400]


def test_secrets_are_masked_and_a_broken_reply_is_not_recorded(
    configured: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "ghp_" + "aB3d" * 9
    told = json_reply(
        {**json.loads(whole_reply("messages").body), "content": [{"type": "text", "text": f"It is {secret}"}]}
    )
    events = stream_bytes("messages").split(b"\n\n")
    cut = sse_reply(b"\n\n".join(events[:4]) + b"\n\n")
    body = {"model": "house", "messages": [{"role": "user", "content": f"Repeat {secret}"}]}
    with FaultyServer([told, cut]) as provider, caplog.at_level(logging.WARNING):
        configure(configured, provider.url)
        use_cassettes(configured, None)
        with serving(app_from_configuration()) as url:
            first = httpx.post(f"{url}/v1/chat/completions?key={CLIENT_KEY}", json=body)
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": True})
    (file,) = configured.iterdir()
    assert secret in first.text
    assert secret not in file.read_text()
    assert CLIENT_KEY not in file.read_text()
    assert "was not recorded: the reply did not end" in caplog.text


def test_mistakes_are_said_at_the_start(configured: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="has no cassettes"):
        use_cassettes(None, tmp_path)
    (tmp_path / "broken.yaml").write_text("format: 99\n")
    with pytest.raises(ConfigurationError, match=r"broken\.yaml"):
        use_cassettes(None, tmp_path)
    with pytest.raises(ConfigurationError, match=r"replay\.ignored_patterns\.0"):
        GatewaySettings.from_table({"replay": {"ignored_patterns": ["("]}})
    with pytest.raises(ConfigurationError, match="choose one of --record and --replay"):
        use_cassettes(tmp_path, tmp_path)


def test_nothing_is_recorded_under_a_policy(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a client says has words that the policy takes out: it is said at the start."""
    configure(configured, "http://unreal.invalid")
    with (configured.parent / "dragoman.toml").open("a") as file:
        file.write('[[plugins]]\nname = "untrusted-data"\n')
    monkeypatch.setenv(RECORD_VARIABLE, str(configured))
    with pytest.raises(ConfigurationError, match=r"record without \[\[plugins\]\]"):
        app_from_configuration()
