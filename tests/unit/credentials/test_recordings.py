"""Cassettes, logs and errors hold nothing of the credentials, and of how they were fetched."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Client
from dragoman.testing import cassette
from tests.unit.credentials.servers import CONVERSE_REPLY, GENERATE_REPLY, Answer, Server
from tests.unit.credentials.test_aws import SECRET, TOKEN, sts
from tests.unit.credentials.test_google import TokenServer, private_key, service_account, write


@pytest.fixture(autouse=True)
def _logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")


@pytest.fixture
def model_server() -> Iterator[Server]:
    with Server(lambda got: Answer(200, CONVERSE_REPLY if "converse" in got.path else GENERATE_REPLY)) as server:
        yield server


def test_a_signed_request(
    model_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The cassette has the question, and neither the signature nor what STS answered. It is replayed without AWS."""
    model = "bedrock:amazon.nova-lite-v1:0"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARECORDED0000")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    path = tmp_path / "signed.yaml"
    settings = {"base_url": model_server.url, "role_arn": "arn:aws:iam::123456789012:role/recorded"}
    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with cassette(path, "all"), Client(providers={"bedrock": settings}) as client:
            assert client.ask(model, "Hi").text == "Yes."
        assert len(server.requests) == 1
    text = path.read_text() + caplog.text
    assert "/converse" in text
    for secret in (SECRET, TOKEN, "ASIASTS1", "AKIARECORDED0000", "AssumeRole", "AWS4-HMAC"):
        assert secret not in text
    seen = len(model_server.requests)
    replayed = {"base_url": model_server.url, "api_key": "any"}
    with cassette(path), Client(providers={"bedrock": replayed}) as client:
        assert client.ask(model, "Hi").text == "Yes."
    assert len(model_server.requests) == seen


def test_a_token(model_server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "token.yaml"
    with TokenServer() as tokens:
        file = write(tmp_path / "key.json", service_account(tokens))
        settings = {"base_url": model_server.url, "credentials_file": file}
        with cassette(path, "all"), Client(providers={"google-vertex": settings}) as client:
            assert client.ask("google-vertex:gemini-2.5-flash", "Hi").text == "Yes."
        assert tokens.count == 1
    text = path.read_text() + caplog.text
    assert "generateContent" in text
    for secret in ("canary-token", private_key()[40:80], "jwt-bearer", "sender@project"):
        assert secret not in text
