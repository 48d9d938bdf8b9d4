"""Wrong requests: the wire's own error and status, and nothing of the gateway or its keys in it."""

import gc
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.gateway.upstream import KEY, PATHS, gateway_before, question, whole_reply

HOUSE = {"house": "openai-chat:m"}
JSON = {"content-type": "application/json"}

BODIES = {
    "nothing": (b"", JSON, 400),
    "no JSON": (b"{", JSON, 400),
    "no object": (b"[1]", JSON, 400),
    "no UTF-8": (b'{"model":"\xff"}', JSON, 400),
    "NaN": (b'{"model":"house","temperature":NaN}', JSON, 400),
    "deep": (b'{"model":"house","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON, 400),
    "no model": (b"{}", JSON, 400),
    "a model that is not text": (b'{"model":7}', JSON, 400),
    "no messages": (b'{"model":"house"}', JSON, 400),
    "messages that are none": (b'{"model":"house","messages":7,"input":7}', JSON, 400),
    "a role that is none": (b'{"model":"house","messages":[{"role":"x","content":"y"}],"input":[7]}', JSON, 400),
    "another type": (b"model=house", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "an unknown compression": (b"{}", {**JSON, "content-encoding": "br"}, 415),
    "too large": (b'{"model":"house","x":"' + b"y" * 300_000 + b'"}', JSON, 413),
    "an unknown model": (b'{"model":"hose"}', JSON, 404),
    "an unknown provider": (b'{"model":"nobody:model"}', JSON, 404),
    "a model with line ends": (b'{"model":"a:b\\r\\nx-evil: 1","messages":[]}', JSON, 404),
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with gateway_before(whole_reply("chat"), models=HOUSE, body_cap=250_000) as (url, _):
        yield url


@pytest.fixture(autouse=True)
def no_search_for_cycles() -> Iterator[None]:
    """A body that is nested deeply uses up the stack; what the collector frees at that moment could not end well."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("wire", PATHS)
def test_every_wrong_request_has_an_answer_in_its_wire(address: str, wire: str) -> None:
    found, faults = {}, []
    for name, (body, headers, _) in BODIES.items():
        reply = httpx.post(address + PATHS[wire], content=body, headers=headers)
        found[name] = reply.status_code
        error = reply.json()["error"]
        if not (isinstance(error["message"], str) and error["message"] and error["type"]):
            faults.append((name, reply.text))
        if wire == "messages" and reply.json()["type"] != "error":
            faults.append((name, reply.text))
        if any(word in reply.text for word in ("Traceback", "dragoman_gateway", "/src/", KEY)):
            faults.append((name, reply.text))
    assert faults == []
    assert found == {name: status for name, (_, _, status) in BODIES.items()}


def test_the_types_of_errors_are_those_that_clients_know(address: str) -> None:
    large = httpx.post(f"{address}/v1/messages", content=BODIES["too large"][0], headers=JSON)
    unknown = httpx.post(f"{address}/v1/chat/completions", content=BODIES["an unknown model"][0], headers=JSON)
    assert large.json()["error"]["type"] == "request_too_large"
    assert unknown.json()["error"]["code"] == "model_not_found"
    assert "near names are house" in unknown.json()["error"]["message"]
    nowhere = httpx.post(f"{address}/v1/nowhere", json={})
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, None)


@pytest.mark.parametrize("path", [f"{path}/" for path in PATHS.values()])
def test_an_address_with_a_slash_behind_it_is_unknown(address: str, path: str) -> None:
    """A redirect would name the address as the gateway knows it, which a proxy before it may have changed."""
    reply = httpx.post(address + path, json={}, headers={"x-forwarded-proto": "https"})
    assert reply.status_code == 404
    assert "there is no address" in reply.json()["error"]["message"]


def test_a_client_that_sends_its_body_too_slowly_gets_an_answer() -> None:
    """The default would be 60 seconds."""
    with gateway_before(whole_reply("chat"), models=HOUSE, body_seconds=0.5) as (url, _):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            connection.sendall(head + b"content-length: 100\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_tool_ids_that_nobody_here_made_go_through() -> None:
    call = {"type": "tool_use", "id": "call_Ab.c|fc_1:2/3 é", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "Rain."}
    body = question("messages", "house")
    body["messages"] += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    with gateway_before(whole_reply("chat"), models=HOUSE) as (url, server):
        assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200
    sent = json.loads(server.requests[0].body)["messages"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


def test_a_missing_key_of_a_provider_is_no_concern_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with gateway_before(whole_reply("chat"), models={"house": "groq:m"}) as (url, _):
        reply = httpx.post(f"{url}/v1/messages", json=question("messages", "house"))
    assert reply.status_code == 500
    assert "GROQ" not in reply.text
