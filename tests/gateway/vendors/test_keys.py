"""Keys, their rights and their budgets hold for Google's and Ollama's clients, and for embeddings."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance
from tests.gateway.upstream import gateway_before, whole_reply
from tests.unit.embeddings.handwritten_provider import TOKENS, Provider

CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
CHAT = {"model": "house", "messages": [{"role": "user", "content": "Hi"}], "stream": False}
EMBED = {"model": "vectors", "input": "Bern"}
MODELS = {"house": "anthropic:m", "vectors": "openai:text-embedding-3-small"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "generateContent": ("/v1beta/models/house:generateContent", CONTENTS),
    "countTokens": ("/v1beta/models/house:countTokens", CONTENTS),
    "chat": ("/api/chat", CHAT),
    "show": ("/api/show", CHAT),
    "embeddings": ("/v1/embeddings", EMBED),
    "embed": ("/api/embed", EMBED),
    "embedContent": ("/v1beta/models/vectors:embedContent", {"content": {"parts": [{"text": "Bern"}]}}),
}


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[KeyStore]:
    database = Database(f"sqlite:///{tmp_path}/keys.db")
    yield KeyStore(database)
    database.close()


def post(url: str, name: str, secret: str) -> httpx.Response:
    path, body = REQUESTS[name]
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    return httpx.post(url + path, json=body, headers=headers)


def test_a_key_opens_what_it_may_use(keys: KeyStore, tmp_path: Path) -> None:
    _, everything = keys.create()
    _, chats = keys.create(endpoints=("ollama",))
    _, one_model = keys.create(models=("vectors",))
    settings = {"models": MODELS, "database": f"sqlite:///{tmp_path}/keys.db"}
    with gateway_before(whole_reply("messages"), **settings) as (url, _):
        without = {name: post(url, name, "").status_code for name in REQUESTS}
        chat = {name: post(url, name, chats).status_code for name in ("chat", "generateContent", "embed")}
        limited = {name: post(url, name, one_model).status_code for name in ("chat", "generateContent", "countTokens")}
        in_address = httpx.post(f"{url}{REQUESTS['generateContent'][0]}?key={everything}", json=CONTENTS)
        as_header = httpx.get(f"{url}/v1beta/models", headers={"x-goog-api-key": everything}).json()
    assert without == dict.fromkeys(REQUESTS, 401)
    assert chat == {"chat": 200, "generateContent": 403, "embed": 403}
    assert limited == dict.fromkeys(limited, 403)
    assert in_address.status_code == 200
    assert [each["name"] for each in as_header["models"]] == ["models/house", "models/vectors"]


def test_a_key_s_budget_pays_for_embeddings(keys: KeyStore, tmp_path: Path) -> None:
    _, secret = keys.create(allowance=Allowance(budgets=(parse_budget(f"{4 * TOKENS} tokens"),)))
    settings = {"models": MODELS, "database": f"sqlite:///{tmp_path}/keys.db"}
    with gateway_before(Provider(1536).reply, **settings) as (url, server):
        replies = [post(url, "embeddings", secret) for _ in range(4)]
    statuses = [reply.status_code for reply in replies]
    assert (statuses[0], statuses[-1]) == (200, 429)
    assert 1 <= len(server.requests) < 4
