"""Stored responses, with OpenAI's SDK, in front of a model of another wire and of the same one."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from dragoman.testing.faults.server import STALL, HttpReply, Pause, ReceivedRequest, json_reply, sse_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.keyed import Start
from tests.gateway.upstream import PATIENCE, PROVIDERS, stream_bytes, streamed_reply, whole_reply

BEHIND = [pytest.param(wire, id=f"{wire} behind") for wire in PROVIDERS]


def answers(behind: str) -> Callable[[ReceivedRequest], HttpReply]:
    """Return a script that numbers its answers, whole or streamed as the request asks."""
    numbers = iter(range(1, 100))

    def answer(request: ReceivedRequest) -> HttpReply:
        text = f"Answer {next(numbers)}."
        streams = json.loads(request.body).get("stream")
        reply = streamed_reply(behind, text) if streams else whole_reply(behind, text)
        own = f'"resp_of_the_provider_{text[7]}"'.encode()
        steps = None if reply.steps is None else [_renamed(step, own) for step in reply.steps]
        return replace(reply, body=_renamed(reply.body, own), steps=steps)

    return answer


def _renamed(step: Any, own: bytes) -> Any:
    return step.replace(b'"resp_1"', own) if isinstance(step, bytes) else step


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_can_be_read_continued_and_deleted(start: Start, behind: str, streamed: bool) -> None:
    """What a client created it can read, continue on any wire, list and delete; the model gets the whole history."""
    setup = start(answers(behind), behind)
    sdk = setup.sdk()

    def ask(**request: Any) -> Response:
        if not streamed:
            return sdk.responses.create(model="house", **request)
        with sdk.responses.stream(model="house", **request) as stream:
            return stream.get_final_response()

    first = ask(input="Where is Bern?", instructions="Be brief.")
    assert (first.output_text, first.status) == ("Answer 1.", "completed")
    second = ask(input=[{"role": "user", "content": "And Basel?"}], previous_response_id=first.id)
    third = ask(input="And Biel?", previous_response_id=second.id)
    assert (third.previous_response_id, third.output_text) == (second.id, "Answer 3.")
    body = setup.sent()
    places = [body.index(text) for text in ("Where is Bern?", "Answer 1.", "And Basel?", "Answer 2.", "And Biel?")]
    assert places == sorted(places)
    assert "previous_response_id" not in body
    assert "Be brief." not in body  # instructions are those of one request

    again = sdk.responses.retrieve(second.id)
    assert (again.id, again.output_text, again.previous_response_id) == (second.id, "Answer 2.", first.id)
    assert sdk.responses.retrieve(second.id) == again
    read = [item.content[0].text for item in sdk.responses.input_items.list(second.id, order="asc")]  # type: ignore[union-attr]
    assert read == ["Where is Bern?", "Answer 1.", "And Basel?"]
    sdk.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as raised:
        ask(input="Go on", previous_response_id=third.id)
    assert raised.value.code == "previous_response_not_found"
    assert first.id in str(raised.value)


def test_a_tool_call_is_continued_by_its_result_alone(start: Start) -> None:
    """A result that comes with the id of the response meets its call, on another vendor's wire."""
    replies = iter([sse_reply(b"".join(WIRES["messages"].call_stream(["{}"]))), streamed_reply("messages", "Done.")])
    setup = start(lambda request: next(replies), "messages")
    sdk = setup.sdk()
    tools: Any = [{"type": "function", "name": "read_file", "parameters": {"type": "object"}, "strict": False}]
    with sdk.responses.stream(model="house", input="Read it", tools=tools) as stream:
        first = stream.get_final_response()
    (call,) = [item for item in first.output if item.type == "function_call"]
    result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "the content"}]
    with sdk.responses.stream(model="house", input=result, tools=tools, previous_response_id=first.id) as stream:
        assert stream.get_final_response().output_text == "Done."
    messages = json.loads(setup.sent())["messages"]
    assert [block["type"] for message in messages[1:] for block in message["content"]] == ["tool_use", "tool_result"]
    assert messages[1]["content"][0]["id"] == messages[2]["content"][0]["tool_use_id"]


def test_a_response_can_be_continued_before_its_stream_has_ended_for_the_client(start: Start) -> None:
    """The response is stored before its last event leaves: another replica can continue it in the same moment."""
    here = start(answers("chat"))
    there = start(answers("chat"))
    ids = set()
    with here.http().stream("POST", "/v1/responses", json={"model": "house", "input": "Hi", "stream": True}) as reply:
        for line in reply.iter_lines():
            if line.startswith("data:") and (response := json.loads(line[5:]).get("response")):
                ids.add(response["id"])
                if response["status"] == "completed":
                    again = there.sdk().responses.create(model="house", input="On", previous_response_id=response["id"])
                    assert again.status == "completed"
    assert len(ids) == 1  # every event of a stream names the same response


@pytest.mark.parametrize("behind", BEHIND)
def test_what_is_not_stored_cannot_be_continued(start: Start, behind: str) -> None:
    """With store false nothing is kept, the provider gets the same setting, and the refusal names the reason."""
    setup = start(answers(behind), behind)
    sdk = setup.sdk()
    first = sdk.responses.create(model="house", input="Hi", store=False)
    with pytest.raises(openai.BadRequestError, match="store is not false") as raised:
        sdk.responses.create(model="house", input="Go on", previous_response_id=first.id)
    assert raised.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(first.id)
    if behind == "responses":
        assert json.loads(setup.sent(0))["store"] is False


def test_a_response_belongs_to_the_key_that_made_it(start: Start) -> None:
    """Another key gets the answer for an id that does not exist: to read, continue, cancel, delete and list."""
    setup = start(answers("chat"))
    mine, other = setup.sdk(0), setup.sdk(1)
    made = mine.responses.create(model="house", input="My secret")
    unknown = "resp_0123456789"
    for call in (other.responses.retrieve, other.responses.cancel, other.responses.delete):
        refusals = []
        for response_id in (made.id, unknown):
            with pytest.raises(openai.NotFoundError) as raised:
                call(response_id)
            refusals.append(str(raised.value).replace(response_id, "ID"))
        assert refusals[0] == refusals[1]
    with pytest.raises(openai.NotFoundError):
        list(other.responses.input_items.list(made.id))
    with pytest.raises(openai.BadRequestError):
        other.responses.create(model="house", input="Go on", previous_response_id=made.id)
    assert "My secret" not in "".join(request.body.decode() for request in setup.server.requests[1:])
    assert mine.responses.retrieve(made.id).id == made.id


def test_an_item_can_be_named_instead_of_repeated(start: Start) -> None:
    """A client that sends references to items, as the AI SDK does, reaches a model without any state."""
    setup = start(answers("messages"), "messages")
    first = setup.sdk().responses.create(model="house", input="Where is Bern?")
    named: Any = {"type": "item_reference", "id": first.output[0].id}
    question: Any = {"role": "user", "content": "Sure?"}
    setup.sdk().responses.create(model="house", input=[named, question])
    assert "Answer 1." in setup.sent()
    with pytest.raises(openai.BadRequestError, match="not found"):
        setup.sdk(1).responses.create(model="house", input=[named, question])


def test_ids_that_are_no_ids_reach_nothing(start: Start) -> None:
    """Paths, encoded slashes and line ends in an id are answered as not found, and no provider is asked."""
    setup = start(answers("chat"))
    http = setup.http()
    for wrong in ("..%2f..%2fv1%2ffiles", "%2e%2e", "a%0d%0ab", "%00", "x" * 300, "resp%20x"):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
            reply = http.request(method, f"/v1/responses/{wrong}{path}")
            assert reply.status_code in (404, 405), (wrong, reply.text)
            assert "\n" not in reply.json()["error"]["message"]
    assert setup.server.requests == []


def test_the_pages_of_the_input(start: Start) -> None:
    """Input items come in pages, in both orders, and a wrong page is refused by name."""
    setup = start(answers("chat"))
    messages: Any = [{"role": "user", "content": f"{number}"} for number in range(5)]
    made = setup.sdk().responses.create(model="house", input=messages)
    pages = setup.sdk().responses.input_items.list(made.id, limit=2, order="asc")
    assert (len(pages.data), pages.has_more) == (2, True)
    texts = [item.content[0].text if not isinstance(item.content, str) else item.content for item in pages]  # type: ignore[union-attr]
    assert texts == ["0", "1", "2", "3", "4"]
    newest = setup.sdk().responses.input_items.list(made.id, limit=1)
    assert newest.data[0].id == list(pages)[-1].id
    for wrong in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "msg_x"}):
        with pytest.raises(openai.BadRequestError):
            setup.sdk().responses.input_items.list(made.id, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("behind", BEHIND)
def test_the_input_of_a_chained_response_is_the_whole_chain(start: Start, behind: str) -> None:
    """Questions and replies in their order, each with the id that it had; in pages; what was deleted is missing."""
    setup = start(answers(behind), behind)
    sdk = setup.sdk()
    first = sdk.responses.create(model="house", input="One")
    second = sdk.responses.create(model="house", input="Two", previous_response_id=first.id)
    third = sdk.responses.create(model="house", input="Three", previous_response_id=second.id)
    items = list(sdk.responses.input_items.list(third.id, order="asc", limit=2))
    said = [(item.role, item.content[0].text) for item in items]  # type: ignore[union-attr]
    assert [text for role, text in said if role == "user"] == ["One", "Two", "Three"]
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant", "user"]
    assert items[1].id == first.output[-1].id
    assert len({item.id for item in items}) == 5
    own = list(sdk.responses.input_items.list(first.id))
    assert [item.id for item in own] == [items[0].id]
    sdk.responses.delete(first.id)
    left = list(sdk.responses.input_items.list(third.id, order="asc"))
    assert [(item.role, item.content[0].text) for item in left] == said[2:]  # type: ignore[union-attr]


def poll(sdk: openai.OpenAI, response_id: str, seconds: float = PATIENCE) -> Response:
    deadline = time.monotonic() + seconds
    while True:
        response = sdk.responses.retrieve(response_id)
        if response.status not in ("queued", "in_progress") or time.monotonic() > deadline:
            return response
        time.sleep(0.02)


@pytest.mark.parametrize("behind", BEHIND)
def test_a_response_runs_in_the_background_and_is_polled(start: Start, behind: str) -> None:
    """A background response is answered at once, read until it is complete, and continued like any other."""
    setup = start(answers(behind), behind)
    sdk = setup.sdk()
    queued = sdk.responses.create(model="house", input="Think", background=True)
    assert (queued.status, queued.background, queued.output) == ("queued", True, [])
    done = poll(sdk, queued.id)
    assert (done.id, done.status, done.output_text, done.background) == (queued.id, "completed", "Answer 1.", True)
    assert done.usage is not None
    assert "background" not in json.loads(setup.sent())
    assert sdk.responses.create(model="house", input="On", previous_response_id=done.id).output_text == "Answer 2."
    assert "Think" in setup.sent()


def test_a_background_stream_is_followed_from_any_event(start: Start) -> None:
    """The events of a background stream are followed by the client that created it, and again from any number, also on
    another replica."""
    slow = sse_reply(*(step for frame in stream_bytes("chat", *"abcdef").split(b"\n\n")[:-1]
                       for step in (frame + b"\n\n", Pause(0.02))))  # fmt: skip
    here, there = start(lambda _: slow), start(answers("chat"))
    live = list(here.sdk().responses.create(model="house", input="Go", background=True, stream=True))
    numbers = [event.sequence_number for event in live]
    assert numbers == list(range(len(live)))
    assert live[-1].type == "response.completed"
    response: Any = live[-1].response
    assert response.output_text == "abcdef"
    assert {event.response.id for event in live if hasattr(event, "response")} == {response.id}
    for setup in (here, there):
        again = list(setup.sdk().responses.retrieve(response.id, stream=True))
        assert again == live
        rest = list(setup.sdk().responses.retrieve(response.id, stream=True, starting_after=numbers[3]))
        assert rest == live[4:]
    plain = there.sdk().responses.create(model="house", input="Hi")
    with pytest.raises(openai.BadRequestError, match="background"):
        list(there.sdk().responses.retrieve(plain.id, stream=True))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_background_stream_of_a_slow_model_is_never_silent(start: Start, elsewhere: bool) -> None:
    """The client has the id of its response before the model begins, and signs of life while it thinks."""
    here = start(lambda _: sse_reply(STALL), ping_seconds=0.2)
    there = start(answers("chat"), ping_seconds=0.2)
    body = {"model": "house", "input": "Go", "background": True, "stream": True}
    with here.http().stream("POST", "/v1/responses", json=body) as reply:
        lines = reply.iter_lines()
        created = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
        assert (created["type"], created["sequence_number"]) == ("response.created", 0)
        assert created["response"]["status"] == "queued"
        if not elsewhere:
            assert ": keep-alive" in lines
    path = f"/v1/responses/{created['response']['id']}"
    if elsewhere:
        with there.http().stream("GET", path, params={"stream": "true"}) as reply:
            assert ": keep-alive" in reply.iter_lines()
    assert there.http().post(f"{path}/cancel").json()["status"] == "cancelled"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_background_response_is_cancelled(start: Start, elsewhere: bool) -> None:
    """Cancelling ends the request to the model, on whichever replica it runs, and stays the end of the response."""
    hanging = sse_reply(b": wait\n\n", STALL)
    here, there = start(lambda _: hanging), start(answers("chat"))
    queued = here.sdk().responses.create(model="house", input="Go", background=True)
    wait_until(lambda: len(here.server.requests) == 1)
    cancelled = (there if elsewhere else here).sdk().responses.cancel(queued.id)
    assert cancelled.status == "cancelled"
    assert here.server.wait_until_closed(seconds=PATIENCE) == 0  # the provider's connection
    assert here.sdk().responses.retrieve(queued.id).status == "cancelled"
    assert here.sdk().responses.cancel(queued.id).status == "cancelled"
    plain = there.sdk().responses.create(model="house", input="Hi")
    with pytest.raises(openai.BadRequestError, match="synchronous"):
        there.sdk().responses.cancel(plain.id)


def test_a_background_response_that_fails_says_why(start: Start) -> None:
    """An error of the provider becomes the failed response, whole and streamed, and cannot be continued."""
    refusal = json_reply({"error": {"message": "no such thing", "type": "invalid_request_error"}}, 400)
    setup = start(lambda _: refusal)
    sdk = setup.sdk()
    failed = poll(sdk, sdk.responses.create(model="house", input="Go", background=True).id)
    assert failed.status == "failed"
    assert failed.error is not None
    assert "no such thing" in failed.error.message
    events = list(sdk.responses.create(model="house", input="Go", background=True, stream=True))
    assert [event.type for event in events] == ["response.created", "response.failed"]
    with pytest.raises(openai.BadRequestError, match="only a complete one"):
        sdk.responses.create(model="house", input="On", previous_response_id=failed.id)
    with pytest.raises(openai.BadRequestError, match="store"):
        sdk.responses.create(model="house", input="Go", background=True, store=False)


def test_a_websocket_is_answered_with_426(start: Start) -> None:
    """Codex asks for a websocket first, and goes on over HTTP at once if the answer is 426."""
    setup = start(answers("chat"))
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    reply = setup.http().get("/v1/responses", headers=upgrade)
    assert reply.status_code == 426
    assert "POST" in reply.json()["error"]["message"]


def test_a_history_goes_on_with_another_vendor_s_model(start: Start) -> None:
    """A chain that began on OpenAI's wire goes on with a model of another one: what was said is replayed, encrypted
    reasoning stays behind as a loss, and the way back works too."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA-only-openai"}
    reply = WIRES["responses"].text_reply("In Switzerland.")
    reply = {**reply, "id": "resp_first", "output": [reasoning, *reply["output"]]}
    openai_side = start(lambda _: json_reply(reply), "responses")
    anthropic_side = start(answers("messages"), "messages")
    first = openai_side.sdk().responses.create(model="house", input="Where is Bern?")
    asked = {"model": "house", "input": "Sure?", "previous_response_id": first.id}
    second = anthropic_side.http().post("/v1/responses", json=asked)
    assert second.json()["output"][-1]["content"][0]["text"] == "Answer 1."
    assert "In Switzerland." in anthropic_side.sent()
    assert "only-openai" not in anthropic_side.sent()
    assert "x-dragoman-losses" in second.headers
    openai_side.sdk().responses.create(model="house", input="Thanks", previous_response_id=second.json()["id"])
    assert "only-openai" in openai_side.sent()
    assert "Answer 1." in openai_side.sent()
