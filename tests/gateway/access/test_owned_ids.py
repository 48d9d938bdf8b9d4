"""Ids of files, containers and conversations work only for the key that made them."""

from typing import Any

import httpx
import pytest

from dragoman.testing.faults.server import json_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply


def file_block(file_id: str) -> list[dict[str, Any]]:
    source = {"type": "file", "file_id": file_id}
    return [{"role": "user", "content": [{"type": "document", "source": source}, {"type": "text", "text": "Read"}]}]


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("messages", {"messages": file_block("file_011CNha8iCJcU1wXNR6q4V8w")}),
    ("messages", {"container": "container_011CPMxVD3fHLUhvTqtsQA5w"}),
    ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-6F2ksmvXxt4V"}]}]}),
    ("responses", {"conversation": "conv_68d2a1b0"}),
    ("responses", {"conversation": {"id": "conv_68d2a1b0"}}),
    ("responses", {"tools": [{"type": "code_interpreter", "container": "cntr_68d2a1b0"}]}),
    ("responses", {"tools": [{"type": "file_search", "vector_store_ids": ["vs_68d2a1b0"]}]}),
    ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-abc123"}}]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "fields"), REQUESTS)
def test_an_id_of_nobody_is_refused(start: Start, wire: str, fields: dict[str, Any]) -> None:
    """A file, container or conversation that this key did not make is refused before a provider is asked."""
    setup = start(lambda _: whole_reply(wire), wire)
    reply = setup.http().post(PATHS[wire], json={**question(wire, "house"), **fields})
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


def test_shared_ids_work_for_every_key(start: Start) -> None:
    """An operator names files that all keys may use; without keys, nothing is checked."""
    setup = start(lambda _: whole_reply("messages"), "messages", keys={"shared_ids": ["file_011*"]})
    body = {**question("messages", "house"), "messages": file_block("file_011CNha8iCJcU1wXNR6q4V8w")}
    assert setup.http().post("/v1/messages", json=body).status_code == 200
    with gateway_before(lambda _: whole_reply("messages"), models={"house": "anthropic:m"}) as (url, _):
        assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200
