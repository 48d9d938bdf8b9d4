"""Uploads to Google go on at an address of their own, to which its SDK sends no key."""

from typing import Any

import httpx
from google import genai
from google.genai import types

from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import KEY, gateway_before
from tests.gateway.vendors.forwarded_calls import GOOGLE, record

_START = "/upload/v1/files"
_BEGIN = {"x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start"}
_END = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"}
_KINDS = ("google.files", "google.file_search_stores", "google.batches")


def _begin(gateway: Keyed, key: str) -> str:
    """Return the address at which the upload goes on."""
    headers = {**_BEGIN, "x-goog-api-key": key}
    reply = gateway.bare.post(_START, json={"file": {"displayName": "a"}}, headers=headers)
    assert reply.headers["x-goog-upload-status"] == "active"
    return reply.headers["x-goog-upload-url"]


def test_an_upload_goes_on_through_the_gateway_for_the_key_that_began_it(start: Start) -> None:
    gateway = start(record, forward=_KINDS)
    address = _begin(gateway, gateway.secrets[0])
    assert address.startswith(f"{gateway.url}{_START}?upload_id=")
    assert httpx.post(address, content=b"Bern", headers=_END).json()["file"]["name"] == "files/file-1"
    sent = gateway.server.requests[-1]
    assert (sent.body, sent.headers["x-goog-upload-command"]) == (b"Bern", "upload, finalize")
    assert KEY.encode() in sent.head
    for key, status in zip(gateway.secrets, (200, 404), strict=True):
        assert gateway.bare.get("/v1/files/file-1", headers={"x-goog-api-key": key}).status_code == status


def test_behind_a_proxy_the_upload_goes_on_at_the_address_of_the_proxy(start: Start) -> None:
    gateway = start(record, forward=_KINDS)
    headers = {**_BEGIN, "x-goog-api-key": gateway.secrets[0]}
    headers |= {"host": "llm.example", "x-forwarded-proto": "https"}
    reply = gateway.bare.post(_START, json={}, headers=headers)
    assert reply.headers["x-goog-upload-url"].startswith(f"https://llm.example{_START}?upload_id=")


def test_an_upload_of_another_key_and_of_nobody_is_an_unknown_one(start: Start) -> None:
    gateway = start(record, forward=_KINDS)
    address = _begin(gateway, gateway.secrets[0])
    other = {**_END, "x-goog-api-key": gateway.secrets[1]}
    assert httpx.post(address, content=b"x", headers=other).status_code == 404
    assert httpx.post(address.replace("up-1", "up-2"), content=b"x", headers=_END).status_code == 401
    assert httpx.post(address.replace("up-1", "up-2"), content=b"x", headers=other).status_code == 404
    assert httpx.post(f"{gateway.url}{_START}", content=b"x", headers=_END).status_code == 401
    assert len(gateway.server.requests) == 1


def test_an_upload_ends_with_its_key(start: Start) -> None:
    gateway = start(record, forward=_KINDS, keys={"max_age": 1.0})
    key, secret = gateway.create_key()
    address = _begin(gateway, secret)
    gateway.keys.revoke(key)
    while httpx.post(address, content=b"x", headers=_END).status_code != 401:
        pass  # other workers hear of it within a second


def test_without_keys_the_sdk_uploads_too_and_no_page_of_another_site() -> None:
    with gateway_before(record, forward=_KINDS) as (url, server), httpx.Client(base_url=url) as http:
        GOOGLE["POST /upload/v1/files"](genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url)))
        assert server.requests[-1].body == bytes(range(256)) * 40
        sent = len(server.requests)
        for query in ("", "?upload_id=up-1", "?key=any"):
            assert http.post(_START + query, content=b"x", headers={"content-type": "text/plain"}).status_code == 415
        assert len(server.requests) == sent


def test_a_batch_sends_its_requests_itself_and_names_nothing_of_another_key(start: Start) -> None:
    gateway = start(record, forward=_KINDS)
    httpx.post(_begin(gateway, gateway.secrets[0]), content=b"Bern", headers=_END)
    sent = len(gateway.server.requests)
    own, other = ({"x-goog-api-key": each} for each in gateway.secrets)

    def ask(config: dict[str, Any], headers: dict[str, str]) -> int:
        body = {"batch": {"inputConfig": config}}
        return gateway.bare.post("/v1beta/models/m:batchGenerateContent", json=body, headers=headers).status_code

    for name in ("fileName", "file_name"):
        assert ask({name: "files/file-1"}, own) == 403
    part = {"fileData": {"fileUri": "files/file-1"}}
    inline = {"requests": {"requests": [{"request": {"contents": [{"parts": [part]}]}}]}}
    assert ask(inline, other) == 404
    assert len(gateway.server.requests) == sent
    assert ask(inline, own) == 200


def test_a_store_takes_no_file_of_another_key(start: Start) -> None:
    gateway = start(record, forward=_KINDS)
    httpx.post(_begin(gateway, gateway.secrets[0]), content=b"Bern", headers=_END)
    other = {"x-goog-api-key": gateway.secrets[1]}
    assert gateway.bare.post("/v1/fileSearchStores", json={}, headers=other).status_code == 200
    sent = len(gateway.server.requests)
    for name in ("fileName", "file_name"):
        reply = gateway.bare.post("/v1/fileSearchStores/store-1:importFile", json={name: "files/file-1"}, headers=other)
        assert reply.status_code == 404
    assert len(gateway.server.requests) == sent
