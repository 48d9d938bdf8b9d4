"""Code that uses the vendors' clients is recorded below them, over real sockets, and replayed without one."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

from dragoman import Session
from dragoman.testing import CassetteMissError, cassette
from dragoman.testing.faults.server import FaultyServer, json_reply

HANDWRITTEN_MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "yes"}],
    "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 2},
}  # fmt: skip
HANDWRITTEN_COMPLETION = {
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}  # fmt: skip
HANDWRITTEN_CHAT = {
    "model": "m", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": "yes"},
    "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 2,
}  # fmt: skip
HANDWRITTEN_CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "yes"}]}}, "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1},
}  # fmt: skip
ASKED: list[Any] = [{"role": "user", "content": "q"}]


def with_anthropic(url: str) -> str:
    with anthropic.Anthropic(api_key="key", base_url=url, max_retries=0) as client:
        block = client.messages.create(model="m", max_tokens=9, messages=ASKED).content[0]
    return str(block.text) if isinstance(block, anthropic.types.TextBlock) else ""


def with_openai(url: str) -> str:
    with openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
        return client.chat.completions.create(model="m", messages=ASKED).choices[0].message.content or ""


def with_ollama(url: str) -> str:
    client = ollama.Client(host=url)
    text = client.chat(model="m", messages=ASKED).message.content
    client._client.close()
    return text or ""


def with_botocore(url: str) -> str:
    session = pytest.importorskip("botocore.session").get_session()
    keys = {"aws_access_key_id": "AK" + "IA" + "Z" * 16, "aws_secret_access_key": "z" * 40}
    client = session.create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, **keys)
    found = client.converse(modelId="amazon.nova-lite-v1:0", messages=[{"role": "user", "content": [{"text": "q"}]}])
    client.close()
    return str(found["output"]["message"]["content"][0]["text"])


def with_urllib(url: str) -> str:
    body = json.dumps({"model": "m", "messages": ASKED, "stream": False}).encode()
    request = urllib.request.Request(f"{url}/api/chat", data=body, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return str(json.loads(reply.read())["message"]["content"])


def with_a_session(url: str) -> str:
    with Session("anthropic:m", providers={"anthropic": {"api_key": "key", "base_url": url}}) as session:
        return session.ask("q", max_output_tokens=9).text


CLIENTS: dict[str, tuple[Callable[[str], str], dict[str, Any]]] = {
    "anthropic": (with_anthropic, HANDWRITTEN_MESSAGE),
    "openai": (with_openai, HANDWRITTEN_COMPLETION),
    "ollama": (with_ollama, HANDWRITTEN_CHAT),
    "botocore": (with_botocore, HANDWRITTEN_CONVERSE),
    "urllib": (with_urllib, HANDWRITTEN_CHAT),
    "session": (with_a_session, HANDWRITTEN_MESSAGE),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_is_recorded_and_replayed(name: str, tmp_path: Path) -> None:
    """The second time with another address, at which nothing listens."""
    call, reply = CLIENTS[name]
    path = tmp_path / "c.yaml"
    with FaultyServer([json_reply(reply)]) as server:
        with cassette(path, "once"):
            assert call(server.url) == "yes"
        assert len(server.requests) == 1
    with cassette(path) as recorder:
        assert call("http://nowhere.invalid") == "yes"
    assert recorder.unplayed == 0
    assert recorder.misses == []


def test_one_recording_serves_two_clients(tmp_path: Path) -> None:
    """A session and the vendor's own client that ask the same get the same reply."""
    path = tmp_path / "c.yaml"
    with FaultyServer([json_reply(HANDWRITTEN_MESSAGE)]) as server, cassette(path, "once"):
        assert with_a_session(server.url) == "yes"
    with cassette(path):
        assert with_anthropic("http://nowhere.invalid") == "yes"


def test_a_miss_is_remembered(tmp_path: Path) -> None:
    """Even if the client, or the code above it, swallows the error."""
    with cassette(tmp_path / "c.yaml") as recorder, pytest.raises(CassetteMissError, match="there is no recording"):
        with_openai("http://nowhere.invalid")
    assert len(recorder.misses) == 1
