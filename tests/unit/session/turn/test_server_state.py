"""A history that the provider stores: continued after its last reply or in a conversation; sent whole if it is gone."""

import json
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Message, Session, get_adapter, tool
from dragoman.adapter.errors import RequestError
from tests.unit.session.drivers import Driver

GPT = "openai:gpt-5.4"
CONVERSATION = "conv_1"
GONE = {
    "previous_response_id": (400, "Previous response with id 'resp_1' not found.", "previous_response_not_found"),
    "conversation": (404, "Conversation with id 'conv_1' not found.", None),
}
"""The provider's words, by the field that names what is gone."""


class Provider:
    """Answers each request, at first with a call if a tool is offered. It knows its replies until it forgets them."""

    def __init__(self, **fields: Any) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.forgetful = False
        self.fields = fields

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        for name, (status, message, code) in GONE.items():
            if self.forgetful and body.get(name):
                error = {"message": message, "type": "invalid_request_error", "param": name, "code": code}
                return httpx.Response(status, json={"error": error})
        number = len(self.bodies)
        item: dict[str, Any] = {
            "type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": f"{number}", "annotations": []}],
        }  # fmt: skip
        if body.get("tools") and number == 1:
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "add",
                    "arguments": '{"a":1,"b":2}', "status": "completed"}  # fmt: skip
        reply: dict[str, Any] = {
            "id": f"resp_{number}", "object": "response", "status": "completed", "model": "gpt-5.4", "store": True,
            "output": [item], "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}, **self.fields,
        }  # fmt: skip
        if body.get("conversation"):
            reply["conversation"] = {"id": body["conversation"]}
        return httpx.Response(200, json=reply)

    @property
    def sent(self) -> list[tuple[Any, Any, list[str]]]:
        """What each request continued, and the kinds of its items."""
        return [
            (body.get("previous_response_id"), body.get("conversation"),
             [item.get("type") or item["role"] for item in body["input"]])
            for body in self.bodies
        ]  # fmt: skip


@tool(side_effects="none")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def started(driver: Driver, provider: Provider, state: Any = True, **settings: Any) -> Any:
    return driver.session({"openai": provider}, GPT, options=AdapterOptions(server_state=state), **settings)


WHOLE = ["user", "function_call", "function_call_output", "message", "user"]


def test_only_what_is_new_is_sent(driver: Driver) -> None:
    """Results of tools and instructions among it; the history is as without the option."""
    provider = Provider()
    session = started(driver, provider, tools=[add], system="Be brief.")
    driver.ask(session, "1+2?")
    assert driver.ask(session, "Again.").losses == ()
    assert provider.sent == [
        (None, None, ["user"]), ("resp_1", None, ["function_call_output"]), ("resp_2", None, ["user"])
    ]  # fmt: skip
    assert provider.bodies[1]["input"][0]["call_id"] == "call_1"
    assert [body["instructions"] for body in provider.bodies] == ["Be brief."] * 3
    assert len(session.messages) == 7


def test_a_conversation_is_continued(driver: Driver) -> None:
    provider = Provider()
    session = started(driver, provider, CONVERSATION)
    driver.ask(session, "One.")
    driver.ask(session, "Two.")
    assert provider.sent == [(None, CONVERSATION, ["user"]), (None, CONVERSATION, ["user"])]


@pytest.mark.parametrize("state", [True, CONVERSATION])
def test_the_whole_history_is_the_way_back(driver: Driver, state: Any) -> None:
    """If the provider forgot it, the turn goes on by itself, and the next turn does not try the same again."""
    provider = Provider()
    session = started(driver, provider, state, tools=[add])
    driver.ask(session, "1+2?")
    provider.forgetful = True
    assert driver.ask(session, "Again.").text == "4"
    assert provider.sent[-1] == (None, None, WHOLE)
    before = len(provider.bodies)
    driver.ask(session, "And again.")
    assert len(provider.bodies) == before + 1
    assert provider.sent[-1][:2] == (None, None)


def test_an_edited_history_is_sent_whole(driver: Driver) -> None:
    """The provider stores what was said before the edit."""
    provider = Provider()
    first = started(driver, provider)
    driver.ask(first, "One.")
    prompt, reply = first.messages
    edited = Message.user("Uno.", id=prompt.id)
    driver.ask(started(driver, provider, messages=(prompt, reply)), "Two.")
    driver.ask(started(driver, provider, messages=(edited, reply)), "Two.")
    assert [state for state, *_ in provider.sent] == [None, "resp_1", None]
    assert provider.sent[2][2] == ["user", "message", "user"]


def test_another_conversation_does_not_take_the_history_of_one(driver: Driver) -> None:
    """An edited history leaves its conversation, with a loss; a new conversation gets all of it."""
    provider = Provider()
    first = started(driver, provider, CONVERSATION)
    driver.ask(first, "One.")
    prompt, reply = first.messages
    edited = Message.user("Uno.", id=prompt.id)
    left = driver.ask(started(driver, provider, CONVERSATION, messages=(edited, reply)), "Two.")
    assert [loss.reason for loss in left.losses] == [
        "server_state: the history is not that of the conversation: all of it is sent"
    ]
    driver.ask(started(driver, provider, "conv_2", messages=(prompt, reply)), "Two.")
    assert [sent[1] for sent in provider.sent] == [CONVERSATION, None, "conv_2"]
    assert provider.sent[2][2] == ["user", "message", "user"]


def test_replies_of_others_between_are_sent(driver: Driver) -> None:
    """A reply of another model after the last stored one is new to the provider."""
    provider = Provider()
    first = started(driver, provider)
    driver.ask(first, "One.")
    history = (*first.messages, Message.user("Two."), Message.assistant("Zwei."))
    driver.ask(started(driver, provider, messages=history), "Three.")
    assert provider.sent[-1] == ("resp_1", None, ["user", "message", "user"])


def test_what_is_not_stored_is_not_continued(driver: Driver) -> None:
    provider = Provider(store=False)
    session = started(driver, provider)
    driver.ask(session, "One.")
    driver.ask(session, "Two.")
    assert provider.sent[-1] == (None, None, ["user", "message", "user"])


LOSSES: list[tuple[str, Any, dict[str, Any], str]] = [
    ("openrouter:openai/gpt-5", True, {}, "server_state: "),
    ("anthropic:claude-sonnet-4-5", "conv_1", {}, "server_state: the endpoint is not known to store a conversation"),
    ("anthropic:claude-sonnet-4-5", True, {"thread": {"type": "create"}}, "server_state: extra names what to continue"),
    ("anthropic-vertex:claude-sonnet-4-5", True, {}, "server_state: the endpoint is not known to store a response"),
    ("bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0", True, {}, "server_state: "),
    ("xai:grok-4.5", "conv_1", {}, "server_state: the endpoint is not known to store a conversation"),
    ("openai:gpt-5.4", True, {"store": False}, "server_state: with store: false, nothing is stored"),
    ("openai:gpt-5.4", True, {"conversation": "conv_2"}, "server_state: extra names what to continue"),
]


@pytest.mark.parametrize(("model", "state", "extra", "reason"), LOSSES)
def test_what_cannot_be_continued_is_a_loss(model: str, state: Any, extra: dict[str, Any], reason: str) -> None:
    provider = model.partition(":")[0]
    options = AdapterOptions(server_state=state, extra={provider: extra})
    losses = get_adapter(model).to_wire([Message.user("Hi")], [], options).losses
    assert len(losses) == 1
    assert losses[0].reason.startswith(reason)


@pytest.mark.parametrize("value", [1, "", 2.5, ["conv_1"]])
def test_a_wrong_value_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="server_state must be True or the id of a conversation"):
        AdapterOptions(server_state=value)


def test_a_dumped_session_continues_there(driver: Driver) -> None:
    """The note travels with the stored history."""
    provider = Provider()
    session = started(driver, provider)
    driver.ask(session, "One.")
    again = type(session).load(
        session.dump(), options=AdapterOptions(server_state=True), providers=session.config.providers
    )
    driver.ask(again, "Two.")
    assert provider.sent[-1] == ("resp_1", None, ["user"])
    assert isinstance(Session(GPT).messages, tuple)
