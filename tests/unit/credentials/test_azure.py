"""Microsoft Entra: tokens of azure-identity, and of any credential of azure-core, for Azure OpenAI."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dragoman import AsyncClient, Client, DragomanError
from dragoman.adapter.errors import CredentialsError, MissingKeyError, NetworkError, RequestTimeoutError
from tests.unit.credentials.servers import CHAT_REPLY, Answer, Received, Server
from tests.unit.transport.loopback_servers import Authority, authority

__all__ = ["authority"]

MODEL = "azure-openai:gpt-4o"
SCOPE = "https://cognitiveservices.azure.com/.default"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "IDENTITY_", "IMDS_", "MSI_")):
            monkeypatch.delenv(name)


@pytest.fixture
def openai() -> Iterator[Server]:
    with Server(lambda _: Answer(200, CHAT_REPLY)) as server:
        yield server


class Entra(Server):
    """Plays the tenants of Entra over TLS."""

    def __init__(self, authority: Authority) -> None:
        super().__init__(self._answer, tls=authority.server())
        self.refusal: Answer | None = None
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()

    def _answer(self, received: Received) -> Answer:
        tenant = received.path.split("/")[1]
        base = f"{self.url}/{tenant}"
        if received.path.endswith("openid-configuration"):
            return Answer(
                200,
                {
                    "issuer": f"{base}/v2.0",
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                },
            )
        self.gate.wait(20)
        if self.refusal is not None:
            return self.refusal
        self.count += 1
        token = f"canary-entra-token-{self.count}"
        return Answer(200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"})

    @property
    def forms(self) -> list[dict[str, str]]:
        """What was asked of the token endpoints."""
        asked = [each for each in self.requests if each.path.endswith("/token")]
        return [{name: values[0] for name, values in parse_qs(each.body.decode()).items()} for each in asked]


@pytest.fixture
def entra(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Entra]:
    hosts = __import__("msal.authority", fromlist=["x"]).WELL_KNOWN_AUTHORITY_HOSTS
    monkeypatch.setattr("msal.authority.WELL_KNOWN_AUTHORITY_HOSTS", hosts | {"127.0.0.1"})
    # After a refusal, msal would ask the port 443 of this host for its other names.
    monkeypatch.setattr("msal.application.ClientApplication._get_authority_aliases", lambda *_: [])
    with Entra(authority) as server:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.certificate))
        yield server
        server.gate.set()


def ask(server: Server, **settings: Any) -> Received:
    with Client(providers={"azure-openai": {"base_url": server.url, "max_retries": 0, **settings}}) as client:
        assert client.ask(MODEL, "Hi").text == "Yes."
    return server.requests[-1]


def token_of(received: Received) -> str:
    assert "api-key" not in received.headers
    return received.headers["authorization"].removeprefix("Bearer canary-entra-token-")


def test_the_variables_of_an_application(openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is fetched once, for Azure OpenAI's scope."""
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant-1")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client-1")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    assert [token_of(ask(openai)) for _ in range(3)] == ["1", "1", "1"]
    assert [each["scope"] for each in entra.forms] == [SCOPE]
    assert entra.forms[0]["client_secret"] == "canary-secret"


def test_tenant_and_application_of_the_settings(openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret stays a variable."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    assert token_of(ask(openai, tenant="tenant-2", client_id="client-2")) == "1"
    assert entra.forms[0]["client_id"] == "client-2"
    assert any("/tenant-2/" in each for each in entra.paths())


def test_a_workload_identity(openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The token of the platform is exchanged."""
    (tmp_path / "token").write_text("canary.federated.token")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "WorkloadIdentityCredential")
    assert token_of(ask(openai, tenant="tenant-3", client_id="client-3")) == "1"
    assert entra.forms[0]["client_assertion"] == "canary.federated.token"


def test_a_managed_identity(openai: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    token = {"access_token": "canary-entra-token-m", "expires_on": str(int(time.time()) + 3600), "token_type": "Bearer"}
    with Server(lambda _: Answer(200, token)) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "canary-header")
        assert token_of(ask(openai, managed_identity=True, client_id="client-4")) == "m"
        query = parse_qs(urlsplit(server.requests[0].path).query)
        assert query["client_id"] == ["client-4"]
        assert query["resource"] == ["https://cognitiveservices.azure.com"]


def test_a_token_of_the_variable(openai: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """AZURE_OPENAI_AD_TOKEN is a token, and no key. A key in its own variable wins."""
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "canary-entra-token-v")
    assert token_of(ask(openai)) == "v"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "canary-key")
    received = ask(openai)
    assert received.headers["api-key"] == "canary-key"
    assert "authorization" not in received.headers


class Token:
    """An AccessToken of azure-core."""

    def __init__(self, token: str) -> None:
        self.token, self.expires_on = token, int(time.time()) + 3600


class OwnCredential:
    """A credential of azure-core."""

    def __init__(self) -> None:
        self.scopes: list[tuple[str, ...]] = []

    def get_token(self, *scopes: str) -> Token:
        self.scopes.append(scopes)
        return Token(f"canary-entra-token-{len(self.scopes)}")


class OwnAsyncCredential(OwnCredential):
    async def get_token(self, *scopes: str) -> Token:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().get_token(*scopes)


@pytest.mark.parametrize("kind", [OwnCredential, OwnAsyncCredential])
def test_any_credential_of_azure_core(kind: type[OwnCredential], openai: Server) -> None:
    """Sync or async, on sync and async calls, for one client or two."""
    credential = kind()
    settings = {"azure-openai": {"base_url": openai.url, "credentials": credential}}

    async def main() -> None:
        async with AsyncClient(providers=settings) as client:
            await asyncio.gather(*(client.ask(MODEL, "Hi") for _ in range(20)))

    asyncio.run(main())
    assert {token_of(each) for each in openai.requests} == {"1"}
    assert token_of(ask(openai, credentials=credential)) == "2"
    assert credential.scopes == [(SCOPE,)] * 2


def test_what_is_refused_is_renewed_once(openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new token is fetched, not the one that the library keeps."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    refusal = Answer(401, {"error": {"code": "401", "message": "expired"}})
    openai.rule = lambda got: refusal if token_of(got) == "1" else Answer(200, CHAT_REPLY)
    assert token_of(ask(openai, tenant="tenant-5", client_id="client-5")) == "2"


REFUSED = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret canary provided."}
FAILURES: dict[str, tuple[Answer, type[DragomanError], str]] = {
    "refused": (Answer(401, REFUSED), CredentialsError, r"refused the credentials \(AADSTS7000215\).*az login"),
    "500": (Answer(500, "canary"), DragomanError, "Microsoft Entra"),
    "HTML": (Answer(200, "<html>canary</html>"), DragomanError, "Microsoft Entra"),
    "64 KB": (
        Answer(200, {"access_token": "canary" * 11_000, "expires_in": 3599, "token_type": "Bearer"}),
        CredentialsError,
        "66,000",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_entra_that_fails(case: str, openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed error without a secret; nothing is sent to the provider."""
    entra.refusal, kind, message = FAILURES[case]
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    with pytest.raises(kind, match=message) as caught:
        ask(openai, tenant="tenant-6", client_id=f"client-{case.replace(' ', '-')}", timeout=30)
    assert caught.value.sent is False
    assert "canary" not in str(caught.value)
    assert not openai.requests


def test_an_entra_that_hangs_or_is_not_there(openai: Server, entra: Entra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    entra.gate.clear()
    with pytest.raises(RequestTimeoutError, match="no credentials in time"):
        ask(openai, tenant="tenant-7", client_id="client-7", timeout=0.5)
    entra.gate.set()
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:9")
    with pytest.raises(NetworkError, match="cannot be reached"):
        ask(openai, tenant="tenant-8", client_id="client-8", timeout=60)
    assert not openai.requests


def test_nothing_at_all(openai: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the key's variables, Entra's own, and what to run."""
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    with pytest.raises(MissingKeyError, match=r"AZURE_OPENAI_API_KEY.*AZURE_TENANT_ID.*az login"):
        ask(openai)
    assert not openai.requests
