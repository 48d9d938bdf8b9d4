"""Files with the requests of a batch: no line reaches an address or an id that its key may not use."""

import json
from typing import Any

import httpx
import pytest

from dragoman.testing.faults.server import ReceivedRequest
from dragoman_gateway.errors import ClientError, ContentTypeError
from dragoman_gateway.vendors.forwarding.form import FormParts, form_fields
from tests.gateway.keyed import Keyed, Start
from tests.gateway.vendors.forwarded_calls import OPENAI, record

_KINDS = ("files", "batches", "uploads", "openai.images")


@pytest.fixture
def gateway(start: Start) -> Keyed:
    gateway = start(record, forward=_KINDS)
    OPENAI["POST /v1/files"](gateway.sdk(0))  # file-1 is of the first key
    gateway.server.requests.clear()
    return gateway


def _line(url: str = "/v1/responses", **body: Any) -> bytes:
    return json.dumps({"custom_id": "1", "method": "POST", "url": url, "body": {"model": "m", **body}}).encode()


def _upload(gateway: Keyed, *lines: bytes, key: int | str = 1, purpose: str = "batch") -> httpx.Response:
    files = {"file": ("a.jsonl", b"\n".join(lines))}
    return gateway.http(key).post("/v1/files", data={"purpose": purpose}, files=files)


_FILE = {"type": "input_file", "file_id": "file-1"}
_FOREIGN = [
    {"input": [{"role": "user", "content": [_FILE]}]},
    {"input": "Hi", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
    {"input": "Hi", "conversation": "conv_1"},
    {"input": "Hi", "previous_response_id": "resp_1"},
    {"input": [{"type": "item_reference", "id": "msg_1"}]},
    {"input": "Hi", "tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
    {"input": "Hi", "tools": [{"type": "shell", "skills": [{"type": "skill_reference", "skill_id": "skill_1"}]}]},
]


@pytest.mark.parametrize("body", _FOREIGN)
def test_a_line_with_an_id_of_another_key_is_refused(gateway: Keyed, body: dict[str, Any]) -> None:
    refused = _upload(gateway, _line(input="Hi"), _line(**body))
    assert refused.status_code == 404
    assert not any(map(_is_whole, gateway.server.requests))


def test_a_line_with_an_own_id_reaches_the_vendor_as_it_is(gateway: Keyed) -> None:
    line = _line(**_FOREIGN[0])
    assert _upload(gateway, line, line, key=0).status_code == 200
    assert b"\n".join([line, line]) in gateway.server.requests[-1].body


@pytest.mark.parametrize(
    "line", [_line("/v1/audio/speech", input="Hi"), _line("/v1/organization/users"), _line("//other/v1/responses")]
)
def test_a_line_for_an_address_that_is_not_open_is_refused(gateway: Keyed, line: bytes) -> None:
    assert _upload(gateway, line).status_code == 403
    assert not any(map(_is_whole, gateway.server.requests))


def test_a_key_sends_no_line_to_what_it_may_not_use_itself(gateway: Keyed) -> None:
    key = gateway.create_key(endpoints=("files", "batches", "responses"))[1]
    assert _upload(gateway, _line(input="Hi"), key=key).status_code == 200
    for url in ("/v1/chat/completions", "/v1/images/generations", "/v1/embeddings"):
        assert _upload(gateway, _line(url), key=key).status_code == 403
        batch = {"completion_window": "24h", "endpoint": url, "input_file_id": "file-1"}
        assert gateway.http(key).post("/v1/batches", json=batch).status_code in (403, 404)
    OPENAI["POST /v1/files"](gateway.sdk(key))
    assert gateway.http(0).post(
        "/v1/batches", json={"completion_window": "24h", "endpoint": "/v1/evals", "input_file_id": "file-1"}
    ).status_code == 403  # fmt: skip


@pytest.mark.parametrize("line", [b"not JSON", b'{"url": "/v1/responses", "url": "/v1/x"}', b"[1]", b'{"URL": 1}'])
def test_a_line_that_cannot_be_checked_is_refused(gateway: Keyed, line: bytes) -> None:
    assert _upload(gateway, line).status_code in (400, 403)
    assert not any(map(_is_whole, gateway.server.requests))


def test_a_file_for_something_else_may_hold_anything(gateway: Keyed) -> None:
    assert _upload(gateway, b"not JSON", _line(**_FOREIGN[0]), purpose="user_data").status_code == 200


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_file_whose_purpose_comes_last_never_arrives_whole(gateway: Keyed, size: int) -> None:
    """The SDK of npm writes the fields of a form in the order in which it was given them."""
    content = _form(("file", _line(**_FOREIGN[0])), ("purpose", b"batch"))
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    assert gateway.http(1).post("/v1/files", content=pieces, headers=_TYPE).status_code == 404
    assert not any(map(_is_whole, gateway.server.requests))
    fine = _form(("file", _line(input="Hi")), ("purpose", b"batch"))
    assert gateway.http(1).post("/v1/files", content=fine, headers=_TYPE).status_code == 200


_TYPE = {"content-type": "multipart/form-data; boundary=b"}


def _form(*parts: tuple[str, bytes]) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n%s\r\n'
    return b"".join(head % (name.encode(), data) for name, data in parts) + b"--b--\r\n"


def _is_whole(request: ReceivedRequest) -> bool:
    return request.body.rstrip().endswith(b"--")


_BATCH = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
_HIDDEN = [
    _form(("purpose", b"user_data"), ("file", b"x"), ("purpose", b"batch")),
    _form(("purpose", b"user_data"), ("file", b"x\n" + _BATCH)),
    _form(("file", b"x"), ("purpose", b"batch"))[:-9],
    _form(("file", b"x")) + _BATCH,
    _form(("purpose", b"user_data"), ("file", b"x")).replace(
        b"\r\n\r\nx", b"\r\nContent-Transfer-Encoding: base64\r\n\r\nx"
    ),
    _form(("purpose", b"user_data"), ("file", b"x")).replace(b'name="purpose"', b"name=purpose"),
    b"preamble" + _form(("purpose", b"batch"), ("file", b"x")),
]


@pytest.mark.parametrize("form", _HIDDEN)
def test_a_form_that_two_readers_could_read_in_two_ways_is_refused(gateway: Keyed, form: bytes) -> None:
    assert gateway.http(1).post("/v1/files", content=form, headers=_TYPE).status_code == 400
    assert not any(each.body == form for each in gateway.server.requests)


def test_a_batch_file_is_not_uploaded_in_parts(gateway: Keyed) -> None:
    body = {"bytes": 9, "filename": "a.jsonl", "mime_type": "application/jsonl", "purpose": "batch"}
    assert gateway.http(1).post("/v1/uploads", json=body).status_code == 403
    assert gateway.http(1).post("/v1/uploads", json={**body, "purpose": "user_data"}).status_code == 200


def test_the_parts_of_a_form_are_the_same_in_any_pieces() -> None:
    content = _form(("purpose", b"batch"), ("file", b"a\r\n-b\r\n--c"), ("empty", b""))
    expected = {"purpose": "batch", "file": "a\r\n-b\r\n--c", "empty": ""}
    assert form_fields(_TYPE["content-type"], content, "model") == expected
    for size in range(1, len(content) + 1):
        parts, found = FormParts(_TYPE["content-type"]), dict[str, bytes]()
        for at in range(0, len(content), size):
            for name, data, _ in parts.feed(content[at : at + size]):
                found[name] = found.get(name, b"") + data
        assert parts.is_whole
        assert {name: data.decode() for name, data in found.items()} == expected


def test_a_form_may_repeat_any_field_but_one() -> None:
    twice = _form(("model", b"m"), ("tag", b"1"), ("tag", b"2"))
    assert form_fields(_TYPE["content-type"], twice, "model") == {"model": "m", "tag": "1"}
    with pytest.raises(ClientError, match="twice"):
        form_fields(_TYPE["content-type"], _form(("model", b"m"), ("Model", b"n")), "model")


def test_a_form_needs_a_boundary_and_an_end() -> None:
    for kind in (
        "multipart/form-data",
        "text/plain",
        "multipart/form-data; boundary=b; boundary=c",
        "multipart/mixed; boundary=b",
    ):
        with pytest.raises(ContentTypeError):
            FormParts(kind)
    with pytest.raises(ClientError, match="no end"):
        form_fields(_TYPE["content-type"], _form(("a", b"b"))[:-6], "model")
