"""Ids of files, containers and conversations work only for the key that made them."""

import asyncio
import json
import re
from contextlib import closing
from typing import Any

import httpx
import pytest

from dragoman.testing.faults.server import Pause, json_reply, sse_reply
from dragoman_gateway.access import Caller
from dragoman_gateway.access.owned_ids import OwnedIds
from dragoman_gateway.database import Database
from tests.benchmarks.wires import WIRES
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, streamed_reply, whole_reply


def file_block(file_id: str) -> list[dict[str, Any]]:
    source = {"type": "file", "file_id": file_id}
    return [{"role": "user", "content": [{"type": "document", "source": source}, {"type": "text", "text": "Read"}]}]


def responses_input(part: dict[str, Any]) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": [part]}]}


def google_file(uri: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": uri, "mimeType": "application/pdf"}}]}]}


GOOGLE_FILE = "https://generativelanguage.googleapis.com/v1beta/files/abc-123"
GOOGLE_QUESTION = {"contents": [{"role": "user", "parts": [{"text": "Where is Bern?"}]}]}
SHELL = {"type": "shell", "environment": {"type": "container_reference", "container_id": "cntr_68d2a1b0"}}
AUDIO: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "audio": {"id": "audio_abc123"}},
    {"role": "user", "content": "Again"},
]

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": file_block("file_011CNha8iCJcU1wXNR6q4V8w")}),
    ("messages", {"container": "container_011CPMxVD3fHLUhvTqtsQA5w"}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-6F2ksmvXxt4V"}]}]}),
    ("responses", {"conversation": "conv_68d2a1b0"}),
    ("responses", {"conversation": {"id": "conv_68d2a1b0"}}),
    ("responses", {"tools": [{"type": "code_interpreter", "container": "cntr_68d2a1b0"}]}),
    ("responses", {"tools": [{"type": "file_search", "vector_store_ids": ["vs_68d2a1b0"]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-abc123"}}]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "0193-of-mistral"}}]}]}),
    ("chat", {"messages": AUDIO}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": GOOGLE_FILE}}]}]}),
    ("responses", responses_input({"type": "input_file", "file_id": "assistant-of-azure"})),
    ("responses", responses_input({"type": "input_file", "file_id": " file-6F2ksmvXxt4V\x00"})),
    ("responses", {"tools": [SHELL]}),
    ("responses", {"input": [{"type": "additional_tools", "role": "developer", "tools": [SHELL]}]}),
    ("responses", {"prompt": {"id": "p", "variables": {"container": {"type": "input_file", "file_id": "file-6F2"}}}}),
    ("google", {**GOOGLE_QUESTION, "cachedContent": "cachedContents/abc"}),
    ("google", {**GOOGLE_QUESTION, "tools": [{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/abc"]}}]}),
    ("google", {**GOOGLE_QUESTION, "tools": [{"file_search": {"file_search_store_names": ["fileSearchStores/abc"]}}]}),
    ("google", google_file(GOOGLE_FILE)),
    ("google", google_file("https://GenerativeLanguage.googleapis.com:443//v1beta/files/abc-123")),
]  # fmt: skip


def ask(setup: Keyed, wire: str, body: dict[str, Any] | str, key: int = 0) -> httpx.Response:
    text = body if isinstance(body, str) else json.dumps(body)
    path = GOOGLE if wire == "google" else PATHS[wire]
    return setup.http(key).post(path, content=text, headers={"content-type": "application/json"})


def body_for(wire: str, fields: dict[str, Any]) -> dict[str, Any]:
    return fields if wire == "google" else {**question(wire, "house"), **fields}


GOOGLE = "/v1beta/models/house:generateContent"


MODELS = {wire: {"house": f"{name}:m"} for wire, name in (*PROVIDERS.items(), ("google", "google"))}


@pytest.mark.parametrize(("wire", "fields"), REQUESTS)
def test_an_id_of_nobody_is_refused(start: Start, wire: str, fields: dict[str, Any]) -> None:
    """A file, container or conversation that this key did not make is refused before a provider is asked, however the
    name of its field is written.
    """
    setup = start(lambda _: whole_reply("chat"), models=MODELS[wire])
    plain = json.dumps(body_for(wire, fields))
    escaped = re.sub(r'(?<=")(\w)(?=\w+": )', lambda found: f"\\u{ord(found[1]):04x}", plain)
    assert json.loads(escaped) == json.loads(plain)
    for text in (plain, escaped):
        reply = ask(setup, wire, text)
        assert reply.status_code == 400, reply.text
        assert "only for the key that made it" in reply.json()["error"]["message"]
    assert setup.server.requests == []


def test_an_id_that_a_reply_named_works_for_its_key_alone(start: Start) -> None:
    """The container of a reply can be used again by the key that got the reply, and by no other."""
    container = "container_011CPMxVD3fHLUhvTqtsQA5w"
    reply = {
        **WIRES["messages"].text_reply("Done."),
        "container": {"id": container, "expires_at": "2027-01-01T00:00:00Z"},
    }
    setup = start(lambda _: json_reply(reply), "messages")
    first = setup.http(0).post("/v1/messages", json=question("messages", "house"))
    assert first.json()["container"]["id"] == container
    again = question("messages", "house", container=container)
    assert setup.http(1).post("/v1/messages", json=again).status_code == 400
    assert setup.http(0).post("/v1/messages", json=again).status_code == 200
    assert container in setup.sent()


ECHOES: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"content": [{"type": "text", "text": "file_0123"}]}),
    ("messages", {"content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"file_id": "file_0123"}}]}),
    ("responses", {"metadata": {"file_id": "file_0123"}}),
    ("responses", {"tools": [{"type": "function", "name": "f", "parameters": {"default": {"file_id": "file_0123"}}}]}),
    ("responses", {"output": [{"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "mine", "tools": [
        {"name": "f", "input_schema": {}, "annotations": {"file_id": "file_0123"}}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "fields"), ECHOES)
def test_a_reply_that_repeats_what_a_client_wrote_makes_no_ids(start: Start, wire: str, fields: dict[str, Any]) -> None:
    """A client could let a model write the id of a file, or write it into metadata that the reply repeats."""
    setup = start(lambda _: json_reply({**WIRES[wire].text_reply("Done."), **fields}), wire)
    first = setup.http().post(PATHS[wire], json=question(wire, "house", store=False))
    assert "file_0123" in first.text
    part = {"type": "input_file", "file_id": "file_0123"}
    stolen = {"messages": file_block("file_0123")} if wire == "messages" else responses_input(part)
    assert ask(setup, wire, body_for(wire, stolen)).status_code == 400


@pytest.mark.parametrize("stream", [False, True])
def test_the_audio_of_a_reply_can_be_named_again(start: Start, stream: bool) -> None:
    """A model repeats its own speech by its id, which Chat's replies name."""
    audio = {"id": "audio_abc123", "data": "UklG", "transcript": "Hi", "expires_at": 1}
    if stream:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        deltas = [{"role": "assistant", "audio": audio}], [{}]
        events = [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for [delta], reason in zip(deltas, (None, "stop"), strict=True)
        ]
        made = sse_reply(
            b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events) + b"data: [DONE]\n\n"
        )
    else:
        reply = WIRES["chat"].text_reply("Hi")
        reply["choices"][0]["message"]["audio"] = audio
        made = json_reply(reply)
    setup = start(lambda _: made)
    setup.http(0).post(PATHS["chat"], json=question("chat", "house", stream=stream))
    again = body_for("chat", {"messages": AUDIO, "stream": stream})
    assert ask(setup, "chat", again, 1).status_code == 400
    assert ask(setup, "chat", again, 0).status_code == 200


def test_an_event_that_arrives_in_pieces_names_its_ids(start: Start) -> None:
    """A network cuts streams wherever it likes: within an event, within a name."""
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas = {"content": "Hi"}, {"audio": {"id": "audio_abc123", "data": "UklG"}}
    events = [
        b"data: %s\n\n" % json.dumps({**chunk, "choices": [{"index": 0, "delta": each}]}).encode() for each in deltas
    ]
    cut = events[1].index(b"audio") + 2
    pieces = (events[0] + events[1][:cut], Pause(0.2), events[1][cut:], Pause(0.2), b"data: [DONE]\n\n")
    setup = start(lambda _: sse_reply(*pieces))
    assert "audio_abc123" in setup.http(0).post(PATHS["chat"], json=question("chat", "house", stream=True)).text
    again = body_for("chat", {"messages": AUDIO, "stream": True})
    assert ask(setup, "chat", again, 1).status_code == 400
    assert ask(setup, "chat", again, 0).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_thread_goes_on_for_its_key_alone(start: Start, stream: bool) -> None:
    """The message of a thread is continued by the key that got it. Others get the answer on which Anthropic's SDK
    sends the whole history."""
    answer = streamed_reply("messages") if stream else whole_reply("messages")
    setup = start(lambda _: answer, "messages")
    first = setup.http(0).post("/v1/messages", json=question("messages", "house", stream=stream, thread=CREATE))
    name = re.search(r'"id": ?"(msg_\w+)"', first.text)
    assert name is not None
    again = question("messages", "house", stream=stream, thread={"type": "continue", "previous_message_id": name[1]})
    assert setup.http(0).post("/v1/messages", json=again).status_code == 200
    refused = setup.http(1).post("/v1/messages", json=again)
    assert refused.status_code == 404
    error = refused.json()["error"]
    assert (error["type"], error["details"]) == ("not_found_error", {"error_code": "thread_not_found"})
    stray = {"model": "house", "messages": [], "thread": {"previous_message_id": name[1]}}
    assert setup.http(1).post("/api/chat", json=stray).status_code == 404


CREATE = {"type": "create"}


def test_arguments_of_tools_and_words_are_not_ids(start: Start) -> None:
    """What a tool calls file_id, and a schema with that name, concern nobody."""
    setup = start(lambda _: whole_reply("messages"), "messages")
    call = {"type": "tool_use", "id": "toolu_1", "name": "open", "input": {"file_id": "file_not_a_providers"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"file_id": "file_0123"}'}
    schema = {"type": "object", "properties": {"file_id": {"type": "string", "default": "file_0123"}}}
    body = {
        **question("messages", "house"),
        "messages": [
            {"role": "user", "content": "Open it"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "open", "input_schema": schema}],
    }
    assert setup.http().post("/v1/messages", json=body).status_code == 200


NO_IDS: list[tuple[str, dict[str, Any]]] = [
    ("google", google_file("https://www.youtube.com/watch?v=abc")),
    ("google", google_file("https://example.com/files/a.pdf")),
    ("google", {"contents": [
        *GOOGLE_QUESTION["contents"],
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"file_id": "file-1"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"container": "file-1"}}}]}]}),
    ("responses", {"prompt": {"id": "p", "variables": {"container": "a box", "file_id": "seven"}}}),
    ("responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}),
    ("chat", {"audio": {"voice": "alloy", "format": "wav"}, "modalities": ["text", "audio"]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.com"}}]}]}),
    ("chat", {"metadata": {"conversation": "conv_1"}}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "fields"), NO_IDS)
def test_what_is_no_id_passes(start: Start, wire: str, fields: dict[str, Any]) -> None:
    """Public addresses, names that a client chose, and settings with the name of a field of ids."""
    answer = json_reply(GOOGLE_REPLY) if wire == "google" else whole_reply(wire)
    setup = start(lambda _: answer, models=MODELS[wire])
    reply = ask(setup, wire, body_for(wire, fields))
    assert reply.status_code == 200, reply.text


GOOGLE_REPLY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}


def test_shared_ids_work_for_every_key(start: Start) -> None:
    """An operator names files that all keys may use; without keys, nothing is checked."""
    setup = start(lambda _: whole_reply("messages"), "messages", keys={"shared_ids": ["file_011*"]})
    body = {**question("messages", "house"), "messages": file_block("file_011CNha8iCJcU1wXNR6q4V8w")}
    assert setup.http().post("/v1/messages", json=body).status_code == 200
    with gateway_before(lambda _: whole_reply("messages"), models={"house": "anthropic:m"}) as (url, _):
        assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200


def test_of_more_ids_than_one_query_takes_none_of_another_key_is_own() -> None:
    with closing(Database("sqlite://")) as database:
        ids = [f"file-{number}" for number in range(10_005)]
        owned = OwnedIds(database, shared=("file-10004",))
        assert asyncio.run(owned.owned(Caller(key_id="key_1"), ids)) == {"file-10004"}
