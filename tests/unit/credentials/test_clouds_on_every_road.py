"""The credentials of each cloud hold on every road: whatever is sent carries them, and they are fetched once."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman import Client, DragomanError, set_default_client
from dragoman.adapter.errors import MissingKeyError, PermissionDeniedError, RequestTimeoutError
from dragoman.adapter.registry import get_adapter
from dragoman.cli.app import app
from tests.unit.client.test_missing_credentials import OFFERED, WAYS, NotOfferedError
from tests.unit.credentials.servers import CHAT_REPLY, CONVERSE_REPLY, GENERATE_REPLY, MESSAGES_REPLY, Answer, Server
from tests.unit.credentials.test_aws import SECRET, ask, instance, signed_by, soon, sts
from tests.unit.credentials.test_azure import Token
from tests.unit.credentials.test_google import TokenServer, service_account, write

MODELS = {
    "bedrock": ("amazon.nova-lite-v1:0", "amazon.titan-embed-text-v2:0"),
    "google-vertex": ("gemini-2.5-flash", "gemini-embedding-001"),
    "anthropic-vertex": ("claude-sonnet-4-5@20250929", ""),
    "azure-openai": ("gpt-4o", "text-embedding-3-small"),
}
"""The models of each provider: one that answers, and one for vectors."""


def ask_command(model: str, settings: dict[str, Any]) -> None:
    with Client(providers=settings) as client:
        set_default_client(client)
        try:
            CliRunner().invoke(app, ["ask", model, "Hi"])
        finally:
            set_default_client(None)


ROADS = WAYS | {"command": ask_command}


class Entra:
    def __init__(self) -> None:
        self.count = 0

    def get_token(self, *_: str) -> Token:
        self.count += 1
        return Token(f"canary-entra-token-{self.count}")


@pytest.fixture
def provider() -> Iterator[Server]:
    def answer(received: Any) -> Answer:
        for part, reply in (
            ("converse", CONVERSE_REPLY),
            ("enerateContent", GENERATE_REPLY),
            ("Predict", MESSAGES_REPLY),
        ):
            if part in received.path:
                return Answer(200, reply)
        return Answer(200, CHAT_REPLY)

    with Server(answer) as server:
        yield server


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ROADS)
def test_each_request_has_them(
    way: str, name: str, provider: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    model = f"{name}:{MODELS[name]['embed' in way]}"
    if way in OFFERED and (model.endswith(":") or OFFERED[way](get_adapter(model)) is None):
        pytest.skip("the provider has no such service")
    settings: dict[str, Any] = {"base_url": provider.url, "max_retries": 0}
    entra = Entra()
    with TokenServer() as tokens, sts() as roles:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", roles.url)
        if name == "bedrock":
            role = "".join(each for each in way if each.isalnum())
            settings |= {"region": "eu-central-1", "role_arn": f"arn:aws:iam::123456789012:role/{role}"}
        elif name == "azure-openai":
            settings["credentials"] = entra
        else:
            settings["credentials_file"] = write(tmp_path / "key.json", service_account(tokens))
        try:
            ROADS[way](model, {name: settings})
        except NotOfferedError:
            pytest.skip("the provider has no such service")
        except DragomanError:  # the server's reply is not one of every road
            if not provider.requests:
                raise
        fetched = {"bedrock": len(roles.requests), "azure-openai": entra.count}.get(name, tokens.count)
    assert fetched == 1
    assert provider.requests
    for received in provider.requests:
        if name == "bedrock":
            assert signed_by(received) == ("ASIASTS1", "eu-central-1", "bedrock")
        elif name == "azure-openai":
            assert received.headers["authorization"] == "Bearer canary-entra-token-1"
        else:
            assert received.headers["authorization"] == "Bearer ya29.canary-token-1"


def test_the_token_of_another_account_is_not_renewed(provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is valid, and lacks the permission: another one of the same source would lack it too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    denied = {"message": "User: arn:aws:sts::999:assumed-role/other is not authorized"}
    provider.rule = lambda _: Answer(403, denied, {"x-amzn-errortype": "AccessDeniedException"})
    with pytest.raises(PermissionDeniedError):
        ask(provider, region="eu-central-1")
    assert len(provider.requests) == 1


@pytest.mark.parametrize("service", ["instance", "container"])
def test_a_metadata_service_that_hangs(service: str, provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of the call holds, and nothing is sent."""
    gate = threading.Event()

    def hang(received: Any) -> Answer:
        gate.wait(20)
        return instance(received, soon())

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with Server(hang) as server:
        if service == "instance":
            monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        else:
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/task")
        with pytest.raises((RequestTimeoutError, MissingKeyError)):
            ask(provider, region="eu-central-1", timeout=0.5)
        gate.set()
    assert not provider.requests
