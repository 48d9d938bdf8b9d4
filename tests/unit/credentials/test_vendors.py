"""Anthropic's and OpenAI's own tokens: bearer tokens, profiles and workload identities."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AdapterOptions, Client, DragomanError
from dragoman.adapter.errors import CredentialsError
from tests.unit.credentials.servers import CHAT_REPLY, MESSAGES_REPLY, Answer, Received, Server

MODEL = "anthropic:claude-haiku-4-5"
BETA = "oauth-2025-04-20"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("APPDATA", raising=False)


class Anthropic(Server):
    """Answers questions, and exchanges tokens at the same address."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.count = 0
        self.refused: set[str] = set()
        self.exchange: Answer | None = None

    def _answer(self, received: Received) -> Answer:
        if received.path.startswith("/v1/oauth/token"):
            self.count += 1
            token = {"access_token": f"canary-token-{self.count}", "expires_in": 3600, "token_type": "Bearer"}
            return self.exchange or Answer(200, token)
        if received.headers.get("authorization") in self.refused:
            return Answer(401, {"type": "error", "error": {"type": "authentication_error", "message": "expired"}})
        return Answer(200, MESSAGES_REPLY)


@pytest.fixture
def anthropic() -> Iterator[Anthropic]:
    with Anthropic() as server:
        yield server


def ask(server: Server, model: str = MODEL, options: Any = None, **settings: Any) -> Received:
    provider = model.partition(":")[0]
    with Client(providers={provider: {"base_url": server.url, "max_retries": 0, **settings}}) as client:
        assert client.ask(model, "Hi", options=options).text == "Yes."
    return server.requests[-1]


def test_a_bearer_token_of_the_variable(anthropic: Anthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    """ANTHROPIC_AUTH_TOKEN is sent as a token. A key in its own variable wins."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "canary-bearer")
    received = ask(anthropic)
    assert received.headers["authorization"] == "Bearer canary-bearer"
    assert "x-api-key" not in received.headers
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-key")
    received = ask(anthropic)
    assert received.headers["x-api-key"] == "canary-key"
    assert "authorization" not in received.headers


@pytest.fixture
def federated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("canary.identity.token")
    monkeypatch.setenv("ANTHROPIC_FEDERATION_RULE_ID", "fdrl_1")
    monkeypatch.setenv("ANTHROPIC_ORGANIZATION_ID", "org-1")
    monkeypatch.setenv("ANTHROPIC_IDENTITY_TOKEN_FILE", str(tmp_path / "identity"))


def test_a_workload_identity(anthropic: Anthropic, federated: None) -> None:
    """The identity is exchanged at the address of the requests, once; the betas of a request stay."""
    for _ in range(2):
        received = ask(anthropic)
        assert received.headers["authorization"] == "Bearer canary-token-1"
        assert received.headers["anthropic-beta"] == BETA
    options = AdapterOptions(headers={"anthropic": {"anthropic-beta": "files-api-2025-04-14"}})
    assert ask(anthropic, options=options).headers["anthropic-beta"] == f"files-api-2025-04-14,{BETA}"
    assert b"canary.identity.token" in anthropic.requests[0].body
    assert anthropic.count == 1


def test_what_is_refused_is_exchanged_again(anthropic: Anthropic, federated: None) -> None:
    anthropic.refused = {"Bearer canary-token-1"}
    assert ask(anthropic).headers["authorization"] == "Bearer canary-token-2"


@pytest.mark.parametrize("answer", [Answer(401, {"error": "canary"}), Answer(500, ""), Answer(200, "<html>canary")])
def test_an_exchange_that_fails(answer: Answer, anthropic: Anthropic, federated: None) -> None:
    """A typed error without a secret; no question is sent."""
    anthropic.exchange = answer
    with pytest.raises(DragomanError, match="Anthropic") as caught:
        ask(anthropic)
    assert caught.value.sent is False
    assert "canary" not in str(caught.value)
    assert set(anthropic.paths()) == {"/v1/oauth/token"}


def test_a_profile(anthropic: Anthropic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ANTHROPIC_PROFILE names a file of Anthropic's; a name without one is an error that says so."""
    folder = tmp_path / "profiles"
    (folder / "configs").mkdir(parents=True)
    (folder / "credentials").mkdir(mode=0o700)
    (folder / "configs/work.json").write_text(json.dumps({"authentication": {"type": "user_oauth"}}))
    token = folder / "credentials/work.json"
    token.write_text(json.dumps({"access_token": "canary-of-the-profile", "expires_at": 4_000_000_000}))
    token.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(folder))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "work")
    assert ask(anthropic).headers["authorization"] == "Bearer canary-of-the-profile"
    monkeypatch.setenv("ANTHROPIC_PROFILE", "gone")
    with pytest.raises(CredentialsError, match="the profile or workload identity was refused"):
        ask(anthropic)


def test_openais_workload_identity() -> None:
    """An object of openai's is exchanged once, and again after a refusal."""
    from openai.auth import WorkloadIdentityAuth

    count = [0]

    def answer(received: Received) -> Answer:
        if received.path == "/oauth/token":
            count[0] += 1
            return Answer(200, {"access_token": f"canary-token-{count[0]}", "expires_in": 3600})
        if received.headers["authorization"] == "Bearer canary-token-1":
            return Answer(401, {"error": {"message": "expired"}})
        return Answer(200, CHAT_REPLY)

    with Server(answer) as server:
        workload = WorkloadIdentityAuth(
            workload_identity={
                "identity_provider_id": "idp_1",
                "service_account_id": "sa_1",
                "provider": {"token_type": "jwt", "get_token": lambda: "canary.subject.token"},
            },
            token_exchange_url=f"{server.url}/oauth/token",
        )
        received = ask(server, "openai-chat:gpt-4o-mini", credentials=workload)
        assert received.headers["authorization"] == "Bearer canary-token-2"
