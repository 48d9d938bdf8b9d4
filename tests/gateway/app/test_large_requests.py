"""A small body costs little, and a large one that agents do send is answered."""

import gzip
import json
import random
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import zstandard

from dragoman_gateway.bodies import read as bodies
from dragoman_gateway.bodies.repeated import RepeatedParts
from dragoman_gateway.json import loads_request
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply

HOUSE = {"house": "openai-chat:m", "same": "anthropic:m"}
JSON = {"content-type": "application/json"}
COMPRESSIONS = {
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd, gzip": lambda body: gzip.compress(zstandard.ZstdCompressor().compress(body)),
}
EMPTY = b"[" + b"{}," * 10_000_000 + b"{}]"
"""31 MB of values, from some KB."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with gateway_before(whole_reply("chat"), models=HOUSE) as (url, _):
        yield url


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The sizes of the texts that were parsed, and the threads in which they were."""
    found: list[tuple[int, str]] = []
    loads_request = bodies.loads_request

    def note(body: bytes) -> Any:
        found.append((len(body), threading.current_thread().name))
        return loads_request(body)

    read = RepeatedParts.read

    def note_parts(parts: RepeatedParts, owner: Any, body: bytes) -> Any:
        if (known := read(parts, owner, body)) is not None:
            found.append((len(body), threading.current_thread().name))
        return known

    monkeypatch.setattr(bodies, "loads_request", note)
    monkeypatch.setattr(RepeatedParts, "read", note_parts)
    return found


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_small_body_that_grows_to_a_large_one_is_refused_and_never_parsed(
    address: str, name: str, parsed: list[tuple[int, str]]
) -> None:
    body = COMPRESSIONS[name](EMPTY)
    assert len(body) < 250_000
    for path in (*PATHS.values(), "/v1/embeddings", "/v1beta/models/house:generateContent", "/api/chat"):
        reply = httpx.post(address + path, content=body, headers={**JSON, "content-encoding": name})
        assert reply.status_code == 413, (path, reply.text)
        assert "times its size" in reply.text
    assert parsed == []


@pytest.mark.parametrize("wire", PATHS)
def test_a_body_with_too_many_values_is_refused_and_never_parsed(
    address: str, wire: str, parsed: list[tuple[int, str]]
) -> None:
    """Whatever they are, and however the text is written."""
    for piece in (b"{},", b"[],", b'"",', b"1,", b"[[1]] , ", b'{"":0},'):
        body = question(wire, "house", x=0)
        written = json.dumps(body).encode().removesuffix(b"0}") + b"[" + piece * 320_000 + b"0]}"
        reply = httpx.post(address + PATHS[wire], content=written, headers=JSON)
        assert (reply.status_code, "200000 values" in reply.text) == (413, True), (piece, reply.text)
        assert reply.json()["error"]["type"]
    assert parsed == []


def test_what_stands_in_texts_counts_as_one_value(address: str) -> None:
    """Also at the end of a piece that is looked at, and behind escapes."""
    draw = random.Random(40)
    texts = ["[{,}]" * 100_000, '\\"[,' * 100_000, '"' * 300_000, "\\" * 300_000, "é,{\n" * 100_000]
    for text in (*texts, "".join(draw.choices('\\"{[,x', k=1_500_000))):
        body = question("chat", "house")
        body["messages"][0]["content"] = text
        assert httpx.post(f"{address}/v1/chat/completions", json=body).status_code == 200


@pytest.mark.parametrize("name", ["x" * 1_000_000, "house" + " " * 1_000, "openai-chat:" + "y" * 1_000])
def test_a_name_of_a_model_has_a_length(address: str, name: str) -> None:
    fields = [question(wire, name) for wire in PATHS]
    asked = [*zip(PATHS.values(), fields, strict=True), ("/v1/embeddings", {"model": name, "input": "x"})]
    asked.append(("/api/chat", question("chat", name)))
    if len(name) < 10_000:
        asked.append((f"/v1beta/models/{name}:generateContent", {"contents": [{"parts": [{"text": "x"}]}]}))
    for path, body in asked:
        reply = httpx.post(address + path, json=body)
        assert (reply.status_code, len(reply.content) < 1_000) == (400, True), (path, reply.text[:1_000])
        assert "at most 500 characters" in reply.text


def large_requests() -> dict[str, dict[str, Any]]:
    """Requests as agents send them, and larger."""
    draw = random.Random(41)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + draw.randbytes(15_000_000).hex()}}
    calls = [
        message
        for number in range(3_300)
        for message in (
            {"role": "user", "content": [{"type": "text", "text": f"Read {number}, and {{then}} go on."}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{number}",
                        "type": "function",
                        "function": {
                            "name": "read",
                            "arguments": json.dumps({"path": f"/a/{number}", "lines": [1, 2]}),
                        },
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"call_{number}", "content": "line, line; " * 20},
        )
    ]
    values = {f"p{number}": {"type": "string", "description": "One, or more."} for number in range(8)}
    schema = {"type": "object", "properties": values, "required": [*values], "additionalProperties": False}
    tools = [
        {"type": "function", "function": {"name": f"t{number}", "description": "Does it.", "parameters": schema}}
        for number in range(2_000)
    ]
    said = {"role": "user", "content": "Go on."}
    seen = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}
    return {
        "10,000 messages": {"messages": [*calls, said]},
        "an image": {"messages": [seen]},
        "2,000 tools": {"messages": [said], "tools": tools},
        "all": {"messages": [*calls, said, said], "tools": tools},
    }


@pytest.mark.parametrize("name", large_requests())
@pytest.mark.parametrize("compression", ["identity", "zstd"])
def test_large_requests_of_agents_pass_and_are_parsed_beside_the_event_loop(
    address: str, name: str, compression: str, parsed: list[tuple[int, str]]
) -> None:
    body = json.dumps({"model": "house", **large_requests()[name]}).encode()
    sent = zstandard.ZstdCompressor().compress(body) if compression == "zstd" else body
    headers = {**JSON, "content-encoding": compression}
    reply = httpx.post(f"{address}/v1/chat/completions", content=sent, headers=headers)
    assert reply.status_code == 200, reply.text[:1_000]
    ((size, thread),) = parsed
    assert size == len(body)
    assert thread.startswith("gateway-body")


def test_the_caps_are_settings() -> None:
    settings: dict[str, Any] = {"max_values": 10, "max_inflation": 2, "max_name": 5}
    zeros = zstandard.ZstdCompressor().compress(b'{"x":"' + b"0" * 9_000_000 + b'"}')
    with gateway_before(whole_reply("chat"), models=HOUSE, **settings) as (url, _):

        def ask(body: bytes, **headers: str) -> int:
            return httpx.post(f"{url}/v1/messages", content=body, headers={**JSON, **headers}).status_code

        assert ask(json.dumps(question("messages", "house")).encode()) == 200
        assert ask(json.dumps(question("messages", "house", metadata={"a": [1] * 20})).encode()) == 413
        assert ask(json.dumps(question("messages", "houses")).encode()) == 400
        assert ask(zeros, **{"content-encoding": "zstd"}) == 413


@pytest.mark.parametrize("filler", ["x", "é", "\N{GRINNING FACE}"])
def test_a_large_body_is_read_as_a_small_one_is(filler: str) -> None:
    """Its names and numbers are judged before its texts are made."""
    text = json.dumps(filler * 300_000 + "\N{GRINNING FACE}", ensure_ascii=False)
    for fields, large in (("1, 2.5, null", False), ("1" + "0" * 30, True), ('"\\ud800"', False), ("1e200", True)):
        for name in ("u", "ü", "\\u00fc"):
            small = loads_request(f'{{"{name}": [{fields}]}}'.encode())
            found = loads_request(f'{{"{name}": [{fields}], "text": {text}}}'.encode())
            assert (found[0].pop("text"), found) == (json.loads(text), small)
            assert small[1] is large
    twice = ('{"text": %s, "u": 1, "u": 2}', '{"text": %s, "ü": 1, "ü": 2}', '{"text": %s, "ü": 1, "\\u00fc": 2}')
    for wrong in (*twice, '{"text": %s, "b": NaN}', '{"text": %s, "b": 1e999}', '{"text": %s'):
        with pytest.raises(ValueError, match=r"twice|not JSON|too large|delimiter"):
            loads_request((wrong % text).encode())
    with pytest.raises(ValueError, match="utf-8"):
        loads_request(b'{"text": ' + text.encode() + b', "b": "\xff"}')
