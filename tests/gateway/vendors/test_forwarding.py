"""Addresses of vendors: the SDKs reach them through the gateway with the same bytes, each key for itself alone."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Self

import anthropic
import cohere
import httpx
import ollama
import openai
import pytest
from google import genai
from google.genai import types
from mistralai.client import Mistral

from dragoman import Limit, Limits
from dragoman.policy import PluginResult, Step, hook
from dragoman.testing.faults.server import RESET, FaultyServer, HttpReply
from dragoman_gateway import GatewaySettings
from dragoman_gateway.wires.forwarded import addresses
from tests.gateway.agents.clients import VARIABLE, folder
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import KEY, PATIENCE, gateway_before, waiting_reply
from tests.gateway.vendors.address_page import PAGE, render
from tests.gateway.vendors.forwarded_calls import (
    ANTHROPIC,
    COHERE,
    GOOGLE,
    MISTRAL,
    OLLAMA,
    OPENAI,
    Call,
    plain,
    record,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:batches.create_embeddings"),
]
ALL = tuple({each.kind for each in addresses()})
_CALLS: dict[str, Mapping[str, Call]] = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "cohere": COHERE,
    "google": GOOGLE,
    "mistral": MISTRAL,
    "ollama": OLLAMA,
}
_COST = {each.name: each for each in addresses()}


@pytest.fixture
def gateway(start: Start) -> Keyed:
    return start(record, forward=ALL)


def test_the_page_of_the_docs_has_the_present_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(page), "python -m tests.gateway.vendors.address_page"


def test_there_is_a_call_for_each_address() -> None:
    """No SDK of Ollama asks whether a blob is there: its own program does."""
    for vendor, calls in _CALLS.items():
        named = {each.name for each in addresses() if each.vendor.name == vendor}
        asked = set(calls) | ({"HEAD /api/blobs/{_digest}"} if vendor == "ollama" else set())
        assert {each.replace("/v1beta/", "/v1/") for each in named} == asked


def _sdk(vendor: str, url: str, key: str) -> Any:
    """Return the official SDK of a vendor."""
    if vendor == "openai":
        return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    if vendor == "anthropic":
        return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
    if vendor == "google":
        return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url))
    if vendor == "mistral":
        return Mistral(api_key=key, server_url=url)
    if vendor == "cohere":
        return _Both(key, url)
    return ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})


class _Both:
    """Cohere's clients of two versions."""

    def __init__(self, key: str, url: str) -> None:
        self._http = httpx.Client()
        given: dict[str, Any] = {"api_key": key, "base_url": url, "httpx_client": self._http}
        self.first, self.second = cohere.Client(**given), cohere.ClientV2(**given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


@pytest.mark.parametrize(("vendor", "calls"), _CALLS.items())
def test_the_sdk_s_bytes_arrive_and_no_key_of_the_client(
    gateway: Keyed, vendor: str, calls: Mapping[str, Call]
) -> None:
    with (
        FaultyServer(record) as server,
        _sdk(vendor, server.url, "sk-own") as direct,
        _sdk(vendor, gateway.url, gateway.secrets[0]) as through,
    ):
        _make_ids(gateway, 0)
        for name, call in calls.items():
            server.requests.clear()
            if not name.endswith("/results"):  # the address in the reply of this server is the vendor's own
                call(direct)
            gateway.server.requests.clear()
            call(through)
            sent = gateway.server.requests
            if not name.endswith("/results"):
                assert list(map(plain, sent)) == list(map(plain, server.requests)), name
            for each in sent:
                assert gateway.secrets[0].encode() not in each.head
                assert KEY.encode() in each.head


def test_the_program_of_ollama_asks_whether_a_blob_is_there(gateway: Keyed) -> None:
    assert gateway.http().head("/api/blobs/sha256:0a1b").status_code == 200
    assert gateway.server.requests[-1].method == "HEAD"


_AT_ONE_PATH: Mapping[str, list[tuple[str, dict[str, str]]]] = {
    "openai": [("/v1/files", {}), ("/v1/files/file-1", {})],
    "anthropic": [("/v1/files", {"anthropic-version": "2023-06-01"}), ("/v1/files/file_01", {})],
    "google": [("/v1/files", {"x-goog-api-key": "any"}), ("/v1/files?key=any", {})],
    "mistral": [
        ("/v1/files", {"user-agent": "mistral-client-typescript/2"}),
        ("/v1/files/3e5b4f5c-4c1d-4b37-9d0e-0a1b2c3d4e5f", {}),
    ],
}


@pytest.mark.parametrize("opened", _AT_ONE_PATH)
def test_a_path_of_several_vendors_leads_to_that_of_the_client(opened: str) -> None:
    with (
        gateway_before(record, forward=(f"{opened}.files",)) as (url, server),
        httpx.Client(base_url=url) as http,
    ):
        for vendor, asked in _AT_ONE_PATH.items():
            for path, headers in asked:
                sent = len(server.requests)
                assert (http.get(path, headers=headers).status_code == 200) == (vendor == opened), path
                assert len(server.requests) - sent == (vendor == opened)


def test_a_cache_of_another_key_is_an_unknown_one(gateway: Keyed) -> None:
    """A cache that a key has made through the gateway can be named in its requests, and in no other key's."""
    GOOGLE["POST /v1/cachedContents"](_sdk("google", gateway.url, gateway.secrets[0]))
    own, other = ({"x-goog-api-key": each} for each in gateway.secrets[:2])
    body = {"contents": [{"parts": [{"text": "Hi"}]}], "cachedContent": "cachedContents/cache-1"}
    asked = "/v1beta/models/google:gemini-3-pro:generateContent"
    assert "secret-of-another" not in gateway.bare.get("/v1beta/cachedContents", headers=own).text
    assert gateway.bare.get("/v1beta/cachedContents", headers=other).json() == {"cachedContents": []}
    gateway.server.requests.clear()
    assert gateway.bare.get("/v1beta/cachedContents/cache-1", headers=other).status_code == 404
    assert gateway.bare.post(asked, json=body, headers=other).status_code == 400
    assert not gateway.server.requests
    gateway.bare.post(asked, json=body, headers=own)
    assert b"cachedContents/cache-1" in gateway.server.requests[-1].body


def test_what_it_costs_is_booked_or_said_to_be_unknown(gateway: Keyed) -> None:
    sdk = gateway.sdk()
    OPENAI["POST /v1/moderations"](sdk)
    before = gateway.bare.get("/metrics").text
    OPENAI["POST /v1/images/generations"](sdk)
    after = gateway.bare.get("/metrics").text
    assert 'dragoman_unpriced_total{model="openai:gpt-image-1"} 1.0' in after
    assert "dragoman_unpriced_total{" not in before
    assert 'dragoman_cost_usd_total{model="openai:omni-moderation-latest"} 0.0' in before


def test_an_id_of_another_key_is_an_unknown_one(gateway: Keyed) -> None:
    _make_ids(gateway, 0)
    own, other = gateway.sdk(0), gateway.sdk(1)
    own.files.retrieve("file-1")
    gateway.server.requests.clear()
    for file in ("file-1", "file-of-nobody"):
        with pytest.raises(openai.NotFoundError) as refused:
            other.files.retrieve(file)
        assert f"there is no file '{file}'" in str(refused.value)
        with pytest.raises(openai.NotFoundError):
            other.batches.create(completion_window="24h", endpoint="/v1/responses", input_file_id=file)
        with pytest.raises(openai.NotFoundError):
            other.vector_stores.create(file_ids=[file])
    assert not gateway.server.requests
    assert [each.id for each in own.files.list()] == ["file-1"]
    raw = gateway.http(1).get("/v1/files").text
    assert "file-1" not in raw
    assert "secret-of-another" not in raw


def test_nothing_is_open_that_the_operator_has_not_opened(start: Start) -> None:
    closed, some = start(record), start(record, forward=("openai.files", "POST /v1/moderations"))
    for name in OPENAI:
        method, path = name.split(" ")
        assert closed.http().request(method, path).status_code in (404, 405), name
    assert some.http().post("/v1/moderations", json={"input": "Hi"}).status_code == 200
    assert some.http().get("/v1/files").status_code == 200
    assert some.http().get("/v1/files", headers={"anthropic-version": "2023-06-01"}).status_code == 404
    assert some.http().post("/v1/images/generations", json={}).status_code == 404
    assert not closed.server.requests


def test_a_name_that_opens_nothing_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(ValueError, match="'filez' is not an address"):
        GatewaySettings(forward=("filez",))


def test_keys_with_bounds_get_what_is_known(gateway: Keyed) -> None:
    bounded, modelled = gateway.create_key("100/month")[1], gateway.create_key(models=("openai:gpt-image-1",))[1]
    files_only = gateway.create_key(endpoints=("files",))[1]
    for name, call in OPENAI.items():
        if "{" not in name and _COST[name].cost == "unknown":
            with pytest.raises(openai.PermissionDeniedError, match="cost"):
                call(gateway.sdk(bounded))
    OPENAI["POST /v1/files"](gateway.sdk(bounded))
    OPENAI["POST /v1/images/generations"](gateway.sdk(modelled))
    for name in ("POST /v1/audio/transcriptions", "POST /v1/moderations"):
        with pytest.raises(openai.PermissionDeniedError):
            OPENAI[name](gateway.sdk(modelled))
    OPENAI["GET /v1/files"](gateway.sdk(files_only))
    with pytest.raises(openai.PermissionDeniedError):
        OPENAI["POST /v1/moderations"](gateway.sdk(files_only))


@hook("cmf.llm_input")
def look(step: Step) -> PluginResult:
    return PluginResult()


def test_a_policy_sees_what_it_must_see_or_it_is_closed() -> None:
    with (
        gateway_before(record, forward=ALL, client={"policy": [look]}) as (url, server),
        httpx.Client(base_url=url) as http,
    ):
        assert http.post("/v1/moderations", json={"input": "Hi"}).status_code == 403
        assert http.get("/v1/files").status_code == 200
        assert [each.method for each in server.requests] == ["GET"]


def test_a_form_cannot_smuggle_an_id(gateway: Keyed) -> None:
    for name in ("input_reference[file_id]", "image_file_id", "conversation"):
        reply = gateway.http(1).post("/v1/videos", data={"prompt": "x", name: "file-1"}, files={"a": b"b"})
        assert reply.status_code == 400, name
    assert not gateway.server.requests or all(b"file-1" not in each.body for each in gateway.server.requests)


def test_an_item_of_another_key_is_not_copied_into_a_conversation(gateway: Keyed) -> None:
    body = {"items": [{"type": "item_reference", "id": "msg_of_another"}]}
    assert gateway.http(1).post("/v1/conversations", json=body).status_code == 404
    assert not gateway.server.requests


def test_no_header_makes_a_request_that_of_another_key(gateway: Keyed) -> None:
    """A vendor gives all keys of the gateway the reply of one idempotency key, and knows other accounts by headers."""
    mine = {"idempotency-key": "1", "openai-organization": "org-1", "openai-project": "p", "cookie": "a=b"}
    gateway.http().post("/v1/moderations", json={"input": "Hi"}, headers=mine)
    (sent,) = gateway.server.requests
    assert not mine.keys() & sent.headers.keys()


def test_a_path_or_a_query_leads_nowhere_else(gateway: Keyed) -> None:
    for path in ("/v1/files/..%2f..%2fadmin", "/v1/files/a%3fb", "/v1/files/%2e%2e/content"):
        assert gateway.http().get(path).status_code == 404
    assert not gateway.server.requests
    gateway.http().get("/v1/files?limit=2&after=a%26b&key=" + gateway.secrets[0])
    assert gateway.server.requests[-1].path == "/v1/files?limit=2&after=a%26b"


def test_a_large_form_is_streamed_and_capped(start: Start) -> None:
    gateway = start(record, forward=ALL, forward_cap=3_000_000, body_cap=1000, max_bodies=100_000)

    def pieces(number: int) -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
        for _ in range(number):
            yield b"x" * 100_000
        yield b"\r\n--b--\r\n"

    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert gateway.http().post("/v1/files", content=pieces(20), headers=kind).status_code == 200
    assert gateway.server.requests[-1].body == b"".join(pieces(20))
    assert gateway.http().post("/v1/files", content=pieces(40), headers=kind).status_code == 413
    whole = b"".join(pieces(40))
    assert gateway.http().post("/v1/files", content=whole, headers=kind).status_code == 413


def test_without_keys_a_page_of_another_site_forwards_nothing(tmp_path: Path) -> None:
    with gateway_before(record, forward=ALL) as (url, server), httpx.Client(base_url=url) as http:
        form: dict[str, Any] = {"files": {"file": b"x"}, "data": {"purpose": "batch"}}
        assert http.post("/v1/files", **form).status_code == 415
        assert not server.requests
        assert http.post("/v1/files", **form, headers={"authorization": "Bearer any"}).status_code == 200


def _make_ids(gateway: Keyed, key: int) -> None:
    """Let a key make one id of each kind."""
    for name in (
        "POST /v1/files",
        "POST /v1/uploads",
        "POST /v1/uploads/{upload}/parts",
        "POST /v1/batches",
        "POST /v1/conversations",
        "POST /v1/skills",
        "POST /v1/videos",
        "POST /v1/vector_stores",
    ):
        OPENAI[name](gateway.sdk(key))
    ANTHROPIC["POST /v1/messages/batches"](gateway.anthropic(key))
    google, mistral = (_sdk(each, gateway.url, gateway.secrets[key]) for each in ("google", "mistral"))
    for name in ("POST /upload/v1/files", "POST /v1/fileSearchStores", "POST /v1/cachedContents"):
        GOOGLE[name](google)
    GOOGLE["POST /v1/models/{_model}:batchGenerateContent"](google)
    for name in ("POST /v1/files", "POST /v1/batch/jobs"):
        MISTRAL[name](mistral)
    assert json.loads(json.dumps(gateway.http(key).get("/v1/files").json()))["data"]


@pytest.mark.exhaustive
def test_the_sdks_of_npm_send_the_same_bytes_through_the_gateway(gateway: Keyed) -> None:
    installed = folder()
    if installed is None or not (installed / "npm" / "node_modules" / "cohere-ai").exists():
        pytest.skip(f"no packages of npm are installed: {VARIABLE}")
    with FaultyServer(record) as server:
        _run_node(installed, server.url, "sk-own")
        assert "a row of another key" not in _run_node(installed, gateway.url, gateway.secrets[0])
        assert list(map(plain, gateway.server.requests)) == list(map(plain, server.requests))
        assert all(gateway.secrets[0].encode() not in each.head for each in gateway.server.requests)


def _run_node(installed: Path, base: str, key: str) -> str:
    script = installed / "npm" / "forwarded.mjs"
    shutil.copyfile(Path(__file__).with_name("forwarded.mjs"), script)
    ended = subprocess.run(
        ["node", str(script)],
        env={**os.environ, "BASE": base, "KEY": key},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stderr


def test_a_stream_arrives_as_it_comes(start: Start) -> None:
    go = Event()
    gateway = start([waiting_reply(go, b"data: [DONE]\n\n", before=b"data: 1\n\n")], forward=ALL)
    body = {"model": "gpt-image-1", "prompt": "a cat", "stream": True}
    with gateway.http().stream("POST", "/v1/images/generations", json=body) as reply:
        pieces = reply.iter_raw()
        assert next(pieces) == b"data: 1\n\n"
        assert reply.headers["content-type"].startswith("text/event-stream")
        go.set()
        assert b"".join(pieces) == b"data: [DONE]\n\n"


def test_a_reply_that_breaks_off_does_not_end_well(start: Start) -> None:
    torn = HttpReply(headers={"content-type": "application/octet-stream"}, steps=[b"abc", RESET])
    gateway = start([torn], forward=ALL)
    with pytest.raises(httpx.RemoteProtocolError):
        gateway.http().post("/v1/audio/speech", json={"model": "tts-1", "input": "Hi", "voice": "alloy"})
    assert 'dragoman_broken_streams_total{wire="chat"} 1.0' in gateway.bare.get("/metrics").text


@pytest.mark.parametrize(("status", "shown"), [(400, 400), (401, 502), (404, 404), (429, 429), (500, 500)])
def test_an_error_of_the_vendor_is_one_of_the_client_s_wire(start: Start, status: int, shown: int) -> None:
    error = json.dumps({"error": {"message": "no such thing", "type": "some_error"}}).encode()
    refused = HttpReply(status=status, headers={"content-type": "application/json", "retry-after": "7"}, steps=[error])
    gateway = start([refused], forward=ALL)
    with pytest.raises(openai.APIStatusError) as raised:
        gateway.sdk().moderations.create(input="Hi", model="m")
    assert raised.value.status_code == shown
    assert len(gateway.server.requests) == 1
    if status == 429:
        assert raised.value.response.headers["retry-after"] == "7"


def test_limits_of_all_callers_count_forwarded_requests() -> None:
    client = {"limits": Limits(Limit("openai:*", requests=1, seconds=86_400, shared=True), max_wait=0)}
    with (
        gateway_before(record, forward=ALL, client=client) as (url, server),
        httpx.Client(base_url=url) as http,
    ):
        assert http.get("/v1/files").status_code == 200
        refused = http.post("/v1/moderations", json={"input": "Hi"})
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert len(server.requests) == 1


def test_a_stored_page_is_read_back(start: Start) -> None:
    page = HttpReply(headers={"content-type": "text/html; charset=utf-8"}, steps=[b"<p>Bern</p>"])
    gateway = start(lambda request: record(request) if request.method == "POST" else page, forward=ALL)
    OPENAI["POST /v1/files"](gateway.sdk())
    reply = gateway.http().get("/v1/files/file-1/content")
    assert (reply.status_code, reply.content) == (200, b"<p>Bern</p>")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
