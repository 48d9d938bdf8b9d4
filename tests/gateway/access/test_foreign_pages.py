"""A gateway without keys answers programs of this computer, and no web page of another site."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from dragoman import AsyncClient
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.access import OpenAccess
from dragoman_gateway.access.page_rules import PageRules
from dragoman_gateway.app import app_from_configuration
from dragoman_gateway.server.recording import RECORD_VARIABLE, REPLAY_VARIABLE
from tests.gateway.keyed import Start
from tests.gateway.serving import serving
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply

JSON = {"content-type": "application/json"}
GOOGLE_QUESTION = {"contents": [{"role": "user", "parts": [{"text": "Where is Bern?"}]}]}
CHAT = question("chat", "house")
POSTS: dict[str, dict[str, Any]] = {
    **{path: question(wire, "house") for wire, path in PATHS.items()},
    "/v1/messages/count_tokens": question("messages", "house"),
    "/v1/responses/input_tokens": question("responses", "house"),
    "/v1/responses/compact": question("responses", "house"),
    "/v1/embeddings": {"model": "house", "input": "Bern"},
    "/v1beta/models/house:generateContent": GOOGLE_QUESTION,
    "/v1beta/models/house:streamGenerateContent": GOOGLE_QUESTION,
    "/v1beta/models/house:countTokens": GOOGLE_QUESTION,
    "/v1beta/models/house:embedContent": {"content": {"parts": [{"text": "Bern"}]}},
    "/v1beta/models/house:batchEmbedContents": {"requests": [{"content": {"parts": [{"text": "Bern"}]}}]},
    "/api/chat": CHAT,
    "/api/generate": {"model": "house", "prompt": "Where is Bern?"},
    "/api/embed": {"model": "house", "input": "Bern"},
    "/api/embeddings": {"model": "house", "prompt": "Bern"},
    "/api/show": {"model": "house"},
}
"""Every address that takes a body, with one that it takes."""
READS = (
    "/v1/models",
    "/v1/models/house",
    "/v1/responses/resp_1",
    "/v1/responses/resp_1/input_items",
    "/v1beta/models",
    "/v1beta/models/house",
    "/api/tags",
    "/api/ps",
    "/gateway/",
    "/gateway/conversations/s1",
    "/gateway/spend",
    "/metrics",
)
"""The addresses that show what is configured or stored."""

FOREIGN: list[dict[str, str]] = [
    {"host": "rebound.example"},
    {"host": "rebound.example:8080"},
    {"host": "127.0.0.1.rebound.example"},
    {"host": "localhost.rebound.example"},
    {"origin": "https://shop.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
]
"""What a page of another site, and only such a page, sends."""
SIMPLE_TYPES: list[str | None] = [
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    None,
]
"""The content types that a page may send to another site without asking it."""


@pytest.fixture(scope="module")
def setup() -> Iterator[tuple[str, FaultyServer]]:
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}) as found:
        yield found


def message_of(reply: httpx.Response) -> str:
    """Return the message of an error, which is in the form of the address."""
    found = reply.json()["error"]
    return str(found if isinstance(found, str) else found["message"])


@pytest.mark.parametrize("path", POSTS)
def test_no_page_of_another_site_is_answered(setup: tuple[str, FaultyServer], path: str) -> None:
    """The error has the form of the wire, and says what to set."""
    url, server = setup
    before = len(server.requests)
    for headers in FOREIGN:
        reply = httpx.post(url + path, json=POSTS[path], headers=headers)
        assert reply.status_code == 403, headers
        assert ("allowed_hosts" if "host" in headers else "allowed_origins") in message_of(reply)
    assert len(server.requests) == before


@pytest.mark.parametrize("path", POSTS)
def test_no_body_that_a_page_may_send_is_read(setup: tuple[str, FaultyServer], path: str) -> None:
    url, server = setup
    before = len(server.requests)
    for kind in SIMPLE_TYPES:
        headers = {} if kind is None else {"content-type": kind}
        reply = httpx.post(url + path, content=json.dumps(POSTS[path]), headers=headers)
        assert reply.status_code == 415, kind
        assert "content-type: application/json" in message_of(reply)
    chunks = httpx.post(url + path, content=iter([json.dumps(POSTS[path]).encode()]))
    assert chunks.status_code == 415
    assert len(server.requests) == before


@pytest.mark.parametrize("path", READS)
def test_no_page_of_another_site_reads(setup: tuple[str, FaultyServer], path: str) -> None:
    for headers in FOREIGN:
        assert httpx.get(setup[0] + path, headers=headers).status_code == 403, headers


@pytest.mark.parametrize("method", ["DELETE", "POST"])
def test_no_page_of_another_site_ends_a_stored_response(setup: tuple[str, FaultyServer], method: str) -> None:
    path = "/v1/responses/resp_1" + ("/cancel" if method == "POST" else "")
    for headers in FOREIGN:
        assert httpx.request(method, setup[0] + path, headers=headers).status_code == 403, headers
    assert httpx.request(method, setup[0] + path).status_code == 404


OWN: list[dict[str, str]] = [
    {"host": "localhost"},
    {"host": "LOCALHOST.:8080"},
    {"host": "dragoman.localhost:8080"},
    {"host": "[::1]:8080"},
    {"host": "172.17.0.1:8080"},
    {"host": "host.docker.internal:8080"},
    {"host": "localhost:8080", "origin": "http://localhost:8080", "sec-fetch-site": "same-origin"},
    {"sec-fetch-mode": "cors"},
    {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
    {"content-type": "application/json; charset=utf-8"},
    {"content-type": "APPLICATION/JSON"},
    {"content-type": "application/vnd.api+json"},
]


@pytest.mark.parametrize("headers", OWN)
def test_what_no_other_site_can_send_is_answered(setup: tuple[str, FaultyServer], headers: dict[str, str]) -> None:
    reply = httpx.post(f"{setup[0]}/v1/chat/completions", content=json.dumps(CHAT), headers={**JSON, **headers})
    assert reply.status_code == 200, reply.text


def test_the_operator_names_other_hosts_and_origins() -> None:
    """Of a reverse proxy, of a container, and of a page that may ask."""
    settings: dict[str, Any] = {
        "host": "gateway.lan",
        "allowed_hosts": ("ai.example", "*.svc.cluster.local"),
        "allowed_origins": ("https://notes.example", "chrome-extension://*"),
    }
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}, **settings) as (url, _):

        def status(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return httpx.post(f"{url}/v1/chat/completions", json=CHAT, headers=named).status_code

        for host in ("gateway.lan:8080", "AI.example", "gateway.models.svc.cluster.local"):
            assert status(host=host) == 200, host
        assert status(host="svc.cluster.local.shop.example") == 403
        assert status(origin="https://notes.example", sec_fetch_site="cross-site") == 200
        assert status(origin="chrome-extension://abcdef") == 200
        assert status(origin="https://ai.example", host="ai.example") == 200
        assert status(origin="https://notes.example.shop.example") == 403
        assert status(origin="https://notes.example", host="shop.example") == 403


def test_with_keys_a_page_has_none(start: Start) -> None:
    """The key is the proof: a proxy may call the gateway what it likes, and a client may leave the content type out."""
    setup = start(lambda _: whole_reply("chat"))
    key = {"authorization": f"Bearer {setup.secrets[0]}"}
    for headers in FOREIGN:
        assert httpx.post(f"{setup.url}/v1/chat/completions", json=CHAT, headers=headers).status_code == 401
        assert httpx.post(f"{setup.url}/v1/chat/completions", json=CHAT, headers={**headers, **key}).status_code == 200
    reply = httpx.post(f"{setup.url}/v1/chat/completions", content=json.dumps(CHAT), headers=key)
    assert reply.status_code == 200
    form = {**key, "content-type": "application/x-www-form-urlencoded"}
    assert httpx.post(f"{setup.url}/api/chat", content=json.dumps(CHAT), headers=form).status_code == 200


CLIENTS = Path(__file__).parents[3].parent / "shared" / "clients"


@pytest.mark.skipif(not CLIENTS.is_dir(), reason="the recorded requests of clients are not here")
def test_recorded_clients_are_answered() -> None:
    """Each request that a client was seen to send, with its own headers, but for an address that it got wrong."""
    found = set()
    with gateway_before(lambda _: whole_reply("chat"), models={"*": "openai-chat:m"}) as (url, _):
        port = url.rpartition(":")[2]
        for file in sorted(CLIENTS.glob("*.jsonl")):
            for line in file.read_text("utf-8").splitlines():
                sent = json.loads(line)
                raw = [(name, value.replace("<PORT>", port)) for name, value in sent["headers"]]
                headers = [each for each in raw if each[0].lower() not in ("content-length", "content-encoding")]
                body = None if sent["body"] is None else json.dumps(sent["body"]).encode()
                address = f"{url}{sent['path']}?{urlencode(sent['query'])}"
                upgrade = [(name, value) for name, value in headers if name.lower() not in ("connection", "upgrade")]
                reply = httpx.request(sent["method"], address, headers=upgrade, content=body)
                found.add(reply.status_code)
                assert reply.status_code not in (403, 415), (file.name, sent["path"], reply.text)
    assert 200 in found


def test_cassettes_are_read_by_no_page_of_another_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded are prompts."""
    tapes, settings = tmp_path / "tapes", tmp_path / "dragoman.toml"
    with FaultyServer(lambda _: whole_reply("chat")) as server:
        settings.write_text(
            f'[providers.openai-chat]\nbase_url = "{server.url}/v1"\n'
            f'[gateway]\ndatabase = "sqlite:///{tmp_path}/g.db"\nallowed_hosts = ["ai.example"]\n'
            'models = {house = "openai-chat:m"}\n'
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-provider")
        monkeypatch.setenv("DRAGOMAN_CONFIG", str(settings))
        monkeypatch.setenv(RECORD_VARIABLE, str(tapes))
        with serving(app_from_configuration()) as url:
            assert httpx.post(f"{url}/v1/chat/completions", json=CHAT).status_code == 200
    monkeypatch.delenv(RECORD_VARIABLE)
    monkeypatch.setenv(REPLAY_VARIABLE, str(tapes))
    with serving(app_from_configuration()) as url:
        assert httpx.post(f"{url}/v1/chat/completions", json=CHAT).status_code == 200
        named = {"host": "ai.example"}
        assert httpx.post(f"{url}/v1/chat/completions", json=CHAT, headers=named).status_code == 200
        for headers in FOREIGN:
            assert httpx.post(f"{url}/v1/chat/completions", json=CHAT, headers=headers).status_code == 403


def test_a_program_may_give_its_own_rules() -> None:
    """A program may give its own rules, such as those of the name under which its tests reach the application."""
    with FaultyServer(lambda _: json_reply({})) as server:
        client = AsyncClient(providers={"openai-chat": {"api_key": "sk-x", "base_url": f"{server.url}/v1"}})
        access = OpenAccess(PageRules(hosts=("*",)))
        with serving(create_app(GatewaySettings(), client=client, access=access)) as url:
            assert httpx.get(f"{url}/v1/models", headers={"host": "any.example"}).status_code == 200
