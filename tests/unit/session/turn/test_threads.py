"""`server_state=True` of Anthropic: a thread, of which a request sends only what is new, as the SDK does."""

import json
from typing import Any

import anthropic
import httpx
import pytest

from dragoman import AdapterOptions, Client, Message, TextBlock, get_adapter, tool
from dragoman.adapter.errors import ExpiredReferenceError, InvalidRequestError
from tests.conformance.coverage.loopback import Loopback, Sent, loopback
from tests.unit.session.drivers import Driver
from tests.unit.session.test_routes import wires

MODEL = "anthropic:claude-opus-5-5"
BETA = "message-threads-2026-08-12"
STATE = AdapterOptions(server_state=True, max_output_tokens=64)


def reply_of(number: int, *content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": list(content) or [{"type": "text", "text": f"Answer {number}."}],
        "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 4},
    }  # fmt: skip


def answer(*arguments: Any, **fields: Any) -> httpx.Response:
    return httpx.Response(200, json=reply_of(*arguments, **fields))


def gone(code: str) -> httpx.Response:
    error = {"type": "not_found_error", "message": "No such thread.", "details": {"error_code": code}}
    return httpx.Response(404, json={"type": "error", "error": error})


@tool(side_effects="none")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}


def sdk_requests(server: Loopback) -> list[Sent]:
    """What the helper of Anthropic's SDK sends for two turns."""
    with anthropic.Anthropic(api_key="key-of-a-test", base_url=server.url) as client:
        thread = client.beta.messages.thread(model="claude-opus-5-5", max_tokens=64, system="Be kind.")
        for number, text in enumerate(("One.", "Two."), 1):
            server.answer = ("application/json", json.dumps(reply_of(number)).encode())
            thread.send({"role": "user", "content": [{"type": "text", "text": text}]})
    return server.sent


def test_requests_are_those_of_the_sdk(driver: Driver) -> None:
    """The same bodies and the same beta header; the history is as without the option."""
    provider = wires([answer(1), answer(2)])
    session = driver.session(provider, MODEL, options=STATE, system="Be kind.")
    driver.ask(session, "One.")
    assert driver.ask(session, "Two.").losses == ()
    with loopback() as server:
        theirs = sdk_requests(server)
    wire = provider["anthropic"]
    assert wire.requests == [sent.body for sent in theirs]
    assert [sent.headers["anthropic-beta"] for sent in theirs] == [BETA] * 2
    assert get_adapter(MODEL).to_wire([Message.user("Hi")], [], STATE).headers["anthropic-beta"] == BETA
    assert len(session.messages) == 5


def test_results_of_tools_are_what_is_new(driver: Driver) -> None:
    """The call is the thread's own."""
    provider = wires([answer(1, CALL, stop="tool_use"), answer(2), answer(3)])
    session = driver.session(provider, MODEL, options=STATE, tools=[add])
    driver.ask(session, "1+2?")
    driver.ask(session, "Again.")
    first, second, third = provider["anthropic"].requests
    assert first["thread"] == {"type": "create"}
    assert [each["thread"]["previous_message_id"] for each in (second, third)] == ["msg_1", "msg_2"]
    assert [part["type"] for message in second["messages"] for part in message["content"]] == ["tool_result"]
    assert second.keys() & {"tools", "system"} == third.keys() & {"tools", "system"} == set()
    assert len(third["messages"]) == 1


@pytest.mark.parametrize("code", ["thread_not_found", "thread_already_continued", "thread_continue_in_flight"])
def test_a_thread_that_is_gone_is_sent_whole(driver: Driver, code: str) -> None:
    """By itself, after five minutes or a fork; the next turn begins a new thread, and the one after goes on with it."""
    provider = wires([answer(1), gone(code), answer(2), answer(3), answer(4)])
    session = driver.session(provider, MODEL, options=STATE)
    for text in ("One.", "Two.", "Three.", "Four."):
        reply = driver.ask(session, text)
    assert reply.text == "Answer 4."
    sent = [(each.get("thread", {}).get("type"), len(each["messages"])) for each in provider["anthropic"].requests]
    assert sent == [("create", 1), ("continue", 1), (None, 3), ("create", 5), ("continue", 1)]


def test_without_a_session_the_error_says_what_is_gone() -> None:
    error = get_adapter(MODEL).error(404, gone("thread_not_found").content, {})
    assert isinstance(error, ExpiredReferenceError)
    assert error.reference == "response"


def _edited(messages: tuple[Message, ...]) -> dict[str, Any]:
    prompt, reply = messages
    return {"messages": (Message.user([TextBlock(text="Uno.")], id=prompt.id), reply)}


@pytest.mark.parametrize(
    ("change", "begins"),
    [
        (lambda messages: {"messages": messages}, False),
        (_edited, True),
        (lambda messages: {"messages": messages, "system": "Be brief."}, True),
        (lambda messages: {"messages": messages, "tools": [add]}, True),
    ],
)
def test_what_a_thread_keeps_begins_a_new_one_when_it_changes(driver: Driver, change: Any, *, begins: bool) -> None:
    provider = wires([answer(1), answer(2)])
    first = driver.session(provider, MODEL, options=STATE)
    driver.ask(first, "One.")
    driver.ask(driver.session(provider, MODEL, options=STATE, **change(tuple(first.messages))), "Two.")
    last = provider["anthropic"].requests[-1]
    assert (last["thread"]["type"], len(last["messages"])) == (("create", 3) if begins else ("continue", 1))


def test_a_refused_turn_is_not_continued(driver: Driver) -> None:
    """The thread may hold it, or not."""
    provider = wires([answer(1, {"type": "text", "text": "No."}, stop="refusal"), answer(2)])
    session = driver.session(provider, MODEL, options=STATE)
    driver.ask(session, "One.")
    driver.ask(session, "Two.")
    assert [each["thread"]["type"] for each in provider["anthropic"].requests] == ["create", "create"]


HI = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
CLOUDS: dict[str, tuple[str, Any]] = {
    "anthropic-vertex": (
        "claude-opus-5-5",
        lambda url: anthropic.AnthropicVertex(
            region="global", project_id="p", access_token="token", base_url=url, max_retries=0
        ),
    ),
    "anthropic-bedrock": (
        "anthropic.claude-opus-5-5",
        lambda url: anthropic.AnthropicBedrockMantle(
            api_key="key", aws_region="us-east-1", base_url=url, max_retries=0
        ),
    ),
    "anthropic-foundry": (
        "claude-opus-5-5", lambda url: anthropic.AnthropicFoundry(api_key="key", base_url=url, max_retries=0),
    ),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("provider", CLOUDS)
def test_a_cloud_gets_the_thread_that_a_caller_names(provider: str) -> None:
    """It is sent as the SDK of the cloud sends it; its refusal is an error."""
    name, connect = CLOUDS[provider]
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    body = {"max_tokens": 64, "messages": [HI], "thread": thread}
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "thread: Extra inputs"}}
    with loopback() as server, Client() as client, connect(server.url) as sdk:
        server.answer = ("application/json", json.dumps(refusal).encode())
        server.status = 400
        with pytest.raises(anthropic.BadRequestError):
            sdk.beta.messages.create(model=name, **body)
        with pytest.raises(InvalidRequestError):
            client.ask(
                f"{provider}:{name}", "Hi", api_key="key", base_url=server.url, max_output_tokens=64,
                extra={provider: {"thread": thread}},
            )  # fmt: skip
    theirs, ours = (each.body for each in server.sent)
    assert ours["thread"] == theirs["thread"] == thread
    assert ours["messages"] == theirs["messages"]


@pytest.mark.parametrize("provider", [*CLOUDS, "bedrock"])
def test_a_cloud_gets_the_whole_history_of_a_thread(driver: Driver, provider: str) -> None:
    """There is a loss: no cloud is known to hold threads."""
    wire = wires([answer(1)])
    session = driver.session(wire, MODEL, options=STATE)
    driver.ask(session, "One.")
    name = CLOUDS.get(provider, ("us.anthropic.claude-opus-4-8",))[0]
    request = get_adapter(f"{provider}:{name}").to_wire([*session.messages, Message.user("Two.")], [], STATE)
    body = json.loads(request.body)
    assert "thread" not in body
    assert len(body["messages"]) == 3
    assert [loss.reason.partition(":")[0] for loss in request.losses] == ["server_state"]
