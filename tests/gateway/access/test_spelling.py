"""With keys, each field of a request has one spelling: what reads JSON without regard to case reads no other field."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.access.test_foreign_pages import CLIENTS
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, PROVIDERS, question, whole_reply

GOOGLE = "/v1beta/models/house:generateContent"
ADDRESSES = {**PATHS, "google": GOOGLE, "ollama": "/api/chat", "embeddings": "/v1/embeddings"}
MODELS = {**PROVIDERS, "google": "google", "ollama": "ollama", "embeddings": "openai-chat"}
TEXT = [{"role": "user", "content": "Where is Bern?"}]
GOOGLE_QUESTION: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Where is Bern?"}]}]}


def body_of(wire: str) -> dict[str, Any]:
    if wire == "google":
        return GOOGLE_QUESTION
    if wire == "embeddings":
        return {"model": "house", "input": "Bern"}
    return question("chat" if wire == "ollama" else wire, "house")


def with_text(wire: str, extra: str) -> bytes:
    """Return a request with more fields, which may be such as no dict can hold."""
    return (json.dumps(body_of(wire))[:-1] + f", {extra}}}").encode()


def ask(setup: Keyed, wire: str, body: bytes) -> httpx.Response:
    return setup.http().post(ADDRESSES[wire], content=body, headers={"content-type": "application/json"})


SPELLINGS: list[tuple[str, str]] = [
    *((wire, '"Model": "free"') for wire in ADDRESSES if wire != "google"),
    *((wire, '"model": "house"') for wire in ADDRESSES if wire != "google"),
    ("chat", '"MODEL": "free"'),
    ("chat", '"\\u004dodel": "free"'),
    ("chat", '"Max_Tokens": 100000'),
    ("chat", '"\\u017ftream": true'),
    ("chat", '"\\u017fTREAM": true'),
    ("chat", '"top_\\u212a": 7'),
    ("chat", '"max_to\\u212aens": 100000'),
    ("chat", '"temperature": 0.1, "temperature": 0.2'),
    ("chat", '"new_field": 1, "New_Field": 2'),
    ("chat", '"stream_options": {"Include_Usage": true}'),
    ("chat", '"audio": {"voice": "alloy", "voice": "ash"}'),
    ("chat", '"tools": [{"type": "function", "Function": {"name": "f"}}]'),
    ("chat", '"tools": [{"type": "function", "function": {"name": "f", "Parameters": {}}}]'),
    ("messages", '"Container": "container_1"'),
    ("messages", '"thinking": {"type": "enabled", "Budget_Tokens": 9}'),
    ("messages", '"system": [{"type": "text", "text": "a", "Text": "b"}]'),
    ("responses", '"Previous_Response_Id": "resp_1"'),
    ("responses", '"tools": [{"type": "file_search", "Vector_Store_Ids": ["vs_1"]}]'),
    ("google", '"CachedContent": "cachedContents/1"'),
    ("google", '"cachedcontent": "cachedContents/1"'),
    ("google", '"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 100000}'),
    ("google", '"generationConfig": {"MaxOutputTokens": 100000}'),
    ("google", '"Contents": []'),
    ("ollama", '"options": {"num_predict": 1, "Num_Predict": 100000}'),
    ("ollama", '"options": {"NUM_PREDICT": 100000}'),
    ("embeddings", '"Dimensions": 7'),
    ("embeddings", '"Input": "Zurich"'),
]


@pytest.mark.parametrize(("wire", "extra"), SPELLINGS)
def test_a_second_spelling_of_a_field_is_refused(start: Start, wire: str, extra: str) -> None:
    """A server in Go reads `Model` as `model`; of a name that occurs twice, one reader takes the first and another the
    last."""
    setup = start(lambda _: whole_reply("chat"), models={"house": f"{MODELS[wire]}:m"})
    reply = ask(setup, wire, with_text(wire, extra))
    assert reply.status_code == 400, reply.text
    assert "field" in json.dumps(reply.json()["error"])
    assert setup.server.requests == []


def test_a_file_hides_behind_no_spelling(start: Start) -> None:
    setup = start(lambda _: whole_reply("chat"))
    parts = [{"type": "file", "file": {"File_ID": "file-of-another"}}, {"type": "file", "File": {"file_id": "file-1"}}]
    for part in parts:
        body = {"model": "house", "messages": [{"role": "user", "content": [part]}]}
        assert ask(setup, "chat", json.dumps(body).encode()).status_code == 400
    assert setup.server.requests == []


SCHEMA = '{"type": "object", "properties": {"Name": {"type": "string"}, "name": {"type": "string"}, "Model": {}}}'
FREE: list[tuple[str, str]] = [
    ("chat", '"metadata": {"Model": "a", "model": "b"}'),
    ("chat", '"logit_bias": {"1": 1}, "chat_template_kwargs": {"Tools": 1}, "enableThinking": true'),
    ("chat", f'"tools": [{{"type": "function", "function": {{"name": "f", "parameters": {SCHEMA}}}}}]'),
    ("messages", f'"tools": [{{"name": "f", "input_schema": {SCHEMA}}}]'),
    ("responses", f'"tools": [{{"type": "function", "name": "f", "parameters": {SCHEMA}}}]'),
    ("google", f'"tools": [{{"functionDeclarations": [{{"name": "f", "parameters": {SCHEMA}}}]}}]'),
    ("google", '"system_instruction": {"parts": [{"text": "a"}]}'),
    ("ollama", f'"stream": false, "format": {SCHEMA}'),
]


@pytest.mark.parametrize(("wire", "extra"), FREE)
def test_names_that_a_client_chooses_are_its_own(start: Start, wire: str, extra: str) -> None:
    reply_wire = wire if wire in PATHS else "chat"
    provider = MODELS[wire] if wire in PATHS else "openai-chat"
    setup = start(lambda _: whole_reply(reply_wire), models={"house": f"{provider}:m"})
    reply = ask(setup, wire, with_text(wire, extra))
    assert reply.status_code == 200, reply.text


def test_arguments_of_calls_are_the_client_s_own(start: Start) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"Model": "a", "model": "b", "File_ID": "c"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    talk = [*TEXT, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    setup = start(lambda _: whole_reply("messages"), "messages")
    body = {"model": "house", "max_tokens": 10, "messages": talk}
    assert ask(setup, "messages", json.dumps(body).encode()).status_code == 200


@pytest.mark.skipif(not CLIENTS.is_dir(), reason="the recorded requests of clients are not here")
def test_recorded_clients_have_one_spelling(start: Start) -> None:
    """No request that a client was seen to send is refused for its fields, whatever else is wrong with it here."""
    setup = start(lambda _: whole_reply("chat"), models={"*": "openai-chat:m"})
    refused, asked = [], 0
    for file in sorted(CLIENTS.glob("*.jsonl")):
        for line in Path(file).read_text("utf-8").splitlines():
            sent = json.loads(line)
            if sent["method"] == "POST" and isinstance(sent["body"], dict):
                reply = setup.http().post(sent["path"], json=sent["body"])
                asked += 1
                if "some servers" in reply.text or "twice" in reply.text:
                    refused.append((file.name, sent["path"], reply.text))
    assert refused == []
    assert asked > 100
