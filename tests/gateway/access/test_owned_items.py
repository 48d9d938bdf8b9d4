"""An item of a response works for the key that got it alone, whatever its type is said to be."""

import json
from typing import Any

import pytest

from dragoman.testing.faults.server import HttpReply, json_reply, sse_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, question, whole_reply

PATH = PATHS["responses"]
USER = {"role": "user", "content": "Where is Bern?"}
OTHERS: list[dict[str, Any]] = [
    {"type": None, "id": "msg_68a1"},
    {"id": "msg_68a1"},
    {"id": "msg_68a1", "status": "completed"},
    {"type": "item_reference", "id": "msg_68a1"},
    {"type": "Item_Reference", "id": "msg_68a1"},
    {"type": ["item_reference"], "id": "msg_68a1"},
    {"type": {}, "id": "msg_68a1"},
    {"type": 0, "id": "msg_68a1", "content": None},
    {"type": "message", "id": "msg_68a1"},
    {"type": "message", "role": "assistant", "id": "msg_68a1", "content": []},
    {"type": None, "role": "assistant", "id": "msg_68a1", "content": ""},
    {"type": "reasoning", "id": "rs_68a1", "summary": []},
    {"type": "reasoning", "id": "rs_68a1", "summary": [], "encrypted_content": None},
    {"type": "reasoning", "id": "rs_68a1", "summary": [], "content": [{"type": "reasoning_text", "text": "x"}]},
    {"type": "image_generation_call", "id": "ig_68a1"},
    {"type": "web_search_call", "id": "ws_68a1", "status": "completed"},
    {"type": "file_search_call", "id": "fs_68a1", "queries": ["x"], "status": "completed"},
    {"type": "code_interpreter_call", "id": "ci_68a1", "container_id": None, "code": "1"},
    {"type": "mcp_call", "id": "mcp_68a1", "name": "f", "arguments": "{}", "server_label": "s"},
    {"type": "what_comes_next", "id": "wcn_68a1", "content": "x"},
]


@pytest.mark.parametrize("behind", ["responses", "chat"])
@pytest.mark.parametrize("item", OTHERS)
def test_an_item_of_nobody_is_refused(start: Start, item: dict[str, Any], behind: str) -> None:
    """A provider finds it by its id, for the account that all keys share."""
    setup = start(lambda _: whole_reply(behind), behind)
    for store in (True, False):
        body = question("responses", "house", input=[USER, item, USER], store=store)
        for path in (PATH, "/v1/responses/input_tokens", "/v1/responses/compact"):
            reply = setup.http().post(path, json=body)
            assert reply.status_code == 400, reply.text
            assert "68a1" in reply.json()["error"]["message"]
    assert setup.server.requests == []


WHOLE: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "id": "msg_own", "content": [{"type": "input_text", "text": "Hi"}]},
    {"role": "assistant", "id": "msg_own", "content": "Hello."},
    {"type": "function_call", "id": "fc_own", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "id": "fco_own", "call_id": "c1", "output": ""},
    {"type": "custom_tool_call", "id": "ctc_own", "call_id": "c2", "name": "g", "input": ""},
    {"type": "custom_tool_call_output", "id": "cto_own", "call_id": "c2", "output": "x"},
    {"type": "reasoning", "id": "rs_own", "summary": [], "encrypted_content": "gAAAA"},
]


def test_items_that_hold_their_content_are_the_client_s_own(start: Start) -> None:
    """Agents name each of their own, and send back what they got without having stored it."""
    setup = start(lambda _: whole_reply("responses"), "responses")
    reply = setup.http().post(PATH, json=question("responses", "house", input=[USER, *WHOLE, USER], store=False))
    assert reply.status_code == 200, reply.text
    assert json.loads(setup.sent())["input"][1:-1] == WHOLE


MADE: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "rs_made", "summary": []},
    {"type": "web_search_call", "id": "ws_made", "status": "completed", "action": {"type": "search", "query": "x"}},
]


def reply_with_items(*, stream: bool) -> HttpReply:
    response = WIRES["responses"].text_reply("Bern.")
    response["output"] = [*MADE, *response["output"]]
    if not stream:
        return json_reply(response)
    events = [
        {"type": "response.created", "sequence_number": 0, "response": {**response, "output": []}},
        *({"type": "response.output_item.done", "output_index": n, "item": each} for n, each in enumerate(MADE)),
        {"type": "response.completed", "sequence_number": 1, "response": response},
    ]
    return sse_reply(b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_an_item_that_a_reply_named_works_for_its_key_alone(
    start: Start, store: bool, keep: bool, stream: bool
) -> None:
    """Whether the gateway keeps the response, or the provider alone."""
    made = reply_with_items(stream=stream)
    setup = start(lambda _: made, "responses", responses={"keep": keep})
    first = setup.http(0).post(PATH, json=question("responses", "house", store=store, stream=stream))
    assert "rs_made" in first.text
    again = question("responses", "house", input=[USER, *MADE, USER], store=store, stream=stream)
    refused = setup.http(1).post(PATH, json=again)
    assert (refused.status_code, "_made" in refused.text) == (400, True)
    own = setup.http(0).post(PATH, json=again)
    assert own.status_code == 200, own.text
    assert len(setup.server.requests) == 2
