"""Google Cloud: what google-auth finds authorizes requests to Vertex AI. Its servers are on loopback."""

import asyncio
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from dragoman import AsyncClient, Client, DragomanError
from dragoman.adapter.errors import (
    ConfigurationError,
    CredentialsError,
    MissingKeyError,
    NetworkError,
    RequestTimeoutError,
    ServerError,
)
from tests.unit.credentials.servers import CHAT_REPLY, GENERATE_REPLY, Answer, Received, Server

MODEL = "google-vertex:gemini-2.5-flash"
TARGET = "asker@project.iam.gserviceaccount.com"
PATH = "/v1/projects/project-1/locations/{}/publishers/google/models/gemini-2.5-flash:generateContent"


@cache
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class TokenServer(Server):
    """Plays Google's token endpoint, its STS and its service for impersonation."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.answer: Answer | None = None
        self.count = 0
        self.gate = threading.Event()
        self.gate.set()

    def _answer(self, received: Received) -> Answer:
        self.gate.wait(20)
        if self.answer is not None:
            return self.answer
        self.count += 1
        token = f"ya29.canary-token-{self.count}"
        if received.path.endswith(":generateAccessToken"):
            end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            return Answer(200, {"accessToken": f"{token}-impersonated", "expireTime": end})
        return Answer(
            200,
            {
                "access_token": token,
                "expires_in": 3599,
                "token_type": "Bearer",
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            },
        )


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no file of Google's but the test's own."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GOOGLE_VERTEX_TOKEN", "GEMINI_API_KEY",
                 "GOOGLE_API_KEY", "GOOGLE_CLOUD_LOCATION", "GCLOUD_PROJECT", "GOOGLE_VERTEX_BASE_URL"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("PATH", str(tmp_path))  # google-auth asks gcloud for the project
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.fixture
def vertex() -> Iterator[Server]:
    with Server(lambda _: Answer(200, GENERATE_REPLY)) as server:
        yield server


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with TokenServer() as server:
        yield server
        server.gate.set()


def service_account(tokens: Server, **changes: Any) -> dict[str, Any]:
    return {
        "type": "service_account",
        "project_id": "project-1",
        "private_key_id": "1",
        "private_key": private_key(),
        "client_email": "sender@project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{tokens.url}/token",
        **changes,
    }


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return str(path)


def ask(server: Server, model: str = MODEL, **settings: Any) -> Received:
    provider = model.partition(":")[0]
    with Client(providers={provider: {"base_url": server.url, "max_retries": 0, **settings}}) as client:
        assert client.ask(model, "Hi").text == "Yes."
    return server.requests[-1]


def token_of(received: Received) -> str:
    return received.headers["authorization"].removeprefix("Bearer ya29.canary-token-")


def test_a_service_account_of_the_variable(
    vertex: Server, tokens: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GOOGLE_APPLICATION_CREDENTIALS is enough. The token is fetched once."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", write(tmp_path / "key.json", service_account(tokens)))
    assert [token_of(ask(vertex)) for _ in range(3)] == ["1", "1", "1"]
    assert parse_qs(tokens.requests[0].body.decode())["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]


@pytest.mark.parametrize(
    ("settings", "host", "location"),
    [
        ({}, "aiplatform.googleapis.com", "global"),
        ({"location": "europe-west4"}, "europe-west4-aiplatform.googleapis.com", "europe-west4"),
        ({"location": "eu"}, "aiplatform.eu.rep.googleapis.com", "eu"),
    ],
)
def test_the_address_of_the_project(
    settings: dict[str, Any], host: str, location: str, tokens: TokenServer, tmp_path: Path
) -> None:
    """The project is that of the file, unless the settings or GOOGLE_CLOUD_PROJECT name one."""
    import httpx

    seen: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url)
        return httpx.Response(200, json=GENERATE_REPLY)

    file = write(tmp_path / "key.json", service_account(tokens))
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        own = {"client": http, "credentials_file": file, **settings}
        for project in (None, "project-2"):
            with Client(providers={"google-vertex": {**own, "project": project}}) as client:
                client.ask(MODEL, "Hi")
    assert [each.host for each in seen] == [host] * 2
    assert seen[0].path == PATH.format(location)
    assert seen[1].path == PATH.format(location).replace("project-1", "project-2")


def test_user_credentials_of_gcloud(
    vertex: Server, tokens: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come with the project that pays for the requests."""
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{tokens.url}/token")
    secrets = {"client_secret": "canary-secret", "refresh_token": "canary-refresh"}
    user = {"type": "authorized_user", "client_id": "c", "quota_project_id": "payer", **secrets}
    received = ask(vertex, credentials_file=write(tmp_path / "adc.json", user))
    assert token_of(received) == "1"
    assert received.headers["x-goog-user-project"] == "payer"
    assert parse_qs(tokens.requests[0].body.decode())["refresh_token"] == ["canary-refresh"]


def test_a_workload_identity(vertex: Server, tokens: TokenServer, tmp_path: Path) -> None:
    """The token of the platform is exchanged."""
    subject = write(tmp_path / "token", "canary.subject.token")
    external = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{tokens.url}/v1/token",
        "credential_source": {"file": subject},
    }
    assert token_of(ask(vertex, credentials_file=write(tmp_path / "workload.json", external))) == "1"
    assert b"canary.subject.token" in tokens.requests[0].body


def test_impersonation(vertex: Server, tokens: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service account of the settings is asked for with what is found."""
    monkeypatch.setattr("google.auth.iam._IAM_ENDPOINT", f"{tokens.url}/v1/{{}}:generateAccessToken")
    file = write(tmp_path / "key.json", service_account(tokens))
    assert token_of(ask(vertex, credentials_file=file, impersonate=TARGET)) == "2-impersonated"
    assert tokens.paths() == ["/token", f"/v1/{TARGET}:generateAccessToken"]


def test_the_metadata_server(vertex: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata server of a machine in Google's cloud knows the project, too."""

    def answer(received: Received) -> Answer:
        flavor = {"metadata-flavor": "Google"}
        if received.path.endswith("/project/project-id"):
            return Answer(200, "project-1", flavor)
        if "/token" in received.path:
            return Answer(200, {"access_token": "ya29.canary-token-m", "expires_in": 3599}, flavor)
        if "recursive=true" in received.path:
            return Answer(200, {"email": "machine@project", "scopes": [], "aliases": ["default"]}, flavor)
        return Answer(200, "ok", flavor)

    with Server(answer) as server:
        monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", server.host)
        monkeypatch.setattr("google.auth.compute_engine._metadata._NO_GCE_CHECK", False, raising=False)
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)
        monkeypatch.setenv("GCE_METADATA_IP", server.host)
        monkeypatch.delenv("NO_GCE_CHECK")
        assert token_of(ask(vertex)) == "m"


def test_an_object_of_the_programs_own(vertex: Server, tokens: TokenServer) -> None:
    from google.oauth2 import service_account as module

    found = module.Credentials.from_service_account_info(  # type: ignore[no-untyped-call]
        service_account(tokens), scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    assert token_of(ask(vertex, credentials=found)) == "1"


def test_gemini_by_openais_wire(tokens: TokenServer, tmp_path: Path) -> None:
    """google-openai takes them without a key."""
    with Server(lambda _: Answer(200, CHAT_REPLY)) as server:
        file = write(tmp_path / "key.json", service_account(tokens))
        assert token_of(ask(server, "google-openai:gemini-2.5-flash", credentials_file=file)) == "1"


def test_what_vertex_refuses_is_renewed_once(vertex: Server, tokens: TokenServer, tmp_path: Path) -> None:
    refusal = Answer(401, {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "expired"}})
    vertex.rule = lambda got: refusal if token_of(got) == "1" else Answer(200, GENERATE_REPLY)
    file = write(tmp_path / "key.json", service_account(tokens))
    assert token_of(ask(vertex, credentials_file=file)) == "2"
    assert len(vertex.requests) == 2


def test_a_hundred_requests_share_one_token(vertex: Server, tokens: TokenServer, tmp_path: Path) -> None:
    file = write(tmp_path / "key.json", service_account(tokens))

    async def main() -> None:
        async with AsyncClient(
            providers={"google-vertex": {"base_url": vertex.url, "credentials_file": file}}
        ) as client:
            await asyncio.gather(*(client.ask(MODEL, "Hi") for _ in range(100)))

    asyncio.run(main())
    assert tokens.count == 1
    assert {token_of(each) for each in vertex.requests} == {"1"}
    assert len(vertex.requests) == 100


GRANT = {"error": "invalid_grant", "error_description": "canary: Token has been expired or revoked."}
FAILURES: dict[str, tuple[Answer, type[DragomanError], str]] = {
    "revoked": (Answer(400, GRANT), CredentialsError, r"refused the credentials \(invalid_grant\): check the key in"),
    "500": (Answer(500, ""), ServerError, "the server of the credentials failed"),
    "HTML": (Answer(200, "<html>canary</html>"), DragomanError, "Google Cloud"),
    "no token": (Answer(200, {"canary": 1}), DragomanError, "Google Cloud"),
    "bytes": (Answer(200, {"access_token": "canary\nx", "expires_in": 3599}), CredentialsError, "no key can have"),
    "64 KB": (
        Answer(200, {"access_token": "canary" * 11_000, "expires_in": 3599}),
        CredentialsError,
        "of 66,000 characters",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_token_endpoint_that_fails(case: str, vertex: Server, tokens: TokenServer, tmp_path: Path) -> None:
    """A typed error without a secret; nothing is sent to the provider."""
    tokens.answer, kind, message = FAILURES[case]
    file = write(tmp_path / f"key-{case.replace(' ', '-')}.json", service_account(tokens))
    with pytest.raises(kind, match=message) as caught:
        ask(vertex, credentials_file=file, timeout=30)
    assert caught.value.sent is False
    assert "canary" not in str(caught.value)
    assert not vertex.requests


def test_a_token_endpoint_that_hangs_or_is_not_there(vertex: Server, tokens: TokenServer, tmp_path: Path) -> None:
    tokens.gate.clear()
    file = write(tmp_path / "key.json", service_account(tokens))
    with pytest.raises(RequestTimeoutError, match="no credentials in time"):
        ask(vertex, credentials_file=file, timeout=0.5)
    tokens.gate.set()
    gone = write(tmp_path / "gone.json", service_account(tokens, token_uri="http://127.0.0.1:9/token"))
    with pytest.raises(NetworkError, match="cannot be reached"):
        ask(vertex, credentials_file=gone, timeout=30)
    assert not vertex.requests


MALFORMED: dict[str, Any] = {
    "not JSON": "canary {",
    "a list": ["canary"],
    "no type": {"canary": 1},
    "an unknown type": {"type": "canary_type"},
    "no key": {"type": "service_account", "canary": 1},
    "a broken key": {
        "type": "service_account", "client_email": "a@b", "token_uri": "http://127.0.0.1:9", "private_key": "canary",
    },
    "a user without a token": {"type": "authorized_user"},
}  # fmt: skip


@pytest.mark.parametrize("place", ["setting", "variable"])
@pytest.mark.parametrize("case", MALFORMED)
def test_a_file_that_cannot_be_used(
    case: str, place: str, vertex: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "broken.json", MALFORMED[case])
    if place == "variable":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
    with pytest.raises(ConfigurationError, match=r"broken\.json|Google Cloud") as caught:
        ask(vertex, **({"credentials_file": file} if place == "setting" else {}))
    assert "canary" not in str(caught.value).replace("canary_type", "")
    assert not vertex.requests


def test_a_file_that_is_missing(vertex: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "missing.json")
    with pytest.raises(ConfigurationError, match=r"missing\.json cannot be read"):
        ask(vertex, credentials_file=path)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
    with pytest.raises(ConfigurationError, match=r"missing\.json cannot be read"):
        ask(vertex)


def test_nothing_at_all(vertex: Server) -> None:
    """The error names the key's variable, Google's own, and what to run."""
    with pytest.raises(
        MissingKeyError,
        match=r"GOOGLE_VERTEX_TOKEN.*GOOGLE_APPLICATION_CREDENTIALS.*gcloud auth application-default login",
    ):
        ask(vertex)
    assert not vertex.requests


def test_a_genai_client_is_refused_at_once() -> None:
    """It is not HTTP client; its credentials can be handed over instead."""
    from google import genai

    client = genai.Client(api_key="canary-key-of-genai")
    with pytest.raises(ConfigurationError, match=r"google\.genai.*credentials") as caught:
        Client(providers={"google": {"client": client}})
    assert "canary" not in str(caught.value)
    client.close()
