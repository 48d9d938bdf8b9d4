"""What Google keeps of an interaction: a stored history, a reply in the background, a reply that stopped at a limit.

The provider is written by hand, from the types of google-genai 3.4.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, Budget, Message, RequestContext, get_adapter, tool
from dragoman.errors import RequestCancelledError, RequestTimeoutError, ServerError
from dragoman.events import BackgroundProgress
from tests.conformance.validators.interactions import faults
from tests.unit.session.drivers import Driver

GEMINI = "google-interactions:gemini-3-flash-preview"
PATH = "/v1beta/interactions"
CALL = {"type": "function_call", "id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}
USAGE = {"total_input_tokens": 10, "total_output_tokens": 5, "total_tokens": 15}
POLL, CANCEL = "GET /v1_1", "POST /v1_1/cancel"


def text_step(text: str) -> dict[str, Any]:
    return {"type": "model_output", "content": [{"type": "text", "text": text}]}


def interaction(number: int, status: str, *steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "object": "interaction", "id": f"v1_{number}", "model": "gemini-3-flash-preview", "status": status,
        "steps": list(steps), **fields,
    }  # fmt: skip


class Provider:
    """Answers each request, at first with a call if a tool is offered. It knows its replies until it forgets them."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.forgetful = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        assert list(faults(body, foreign=False)) == []
        self.bodies.append(body)
        if self.forgetful and body.get("previous_interaction_id"):
            error = {"code": "not_found", "message": "Interaction v1_1 was not found."}
            return httpx.Response(404, json={"error": error})
        number = len(self.bodies)
        calls = body.get("tools") and number == 1
        status, step = ("requires_action", CALL) if calls else ("completed", text_step(f"{number}"))
        return httpx.Response(200, json=interaction(number, status, step, usage=USAGE))

    @property
    def sent(self) -> list[tuple[Any, list[str]]]:
        """What each request continued, and the kinds of its steps."""
        return [(body.get("previous_interaction_id"), [step["type"] for step in body["input"]]) for body in self.bodies]


@tool(side_effects="none")
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def started(driver: Driver, provider: Any, **settings: Any) -> Any:
    return driver.session({"google-interactions": provider}, GEMINI, **settings)


STORED = AdapterOptions(server_state=True)
WHOLE = ["user_input", "function_call", "function_result", "model_output", "user_input"]


def test_only_what_is_new_is_sent(driver: Driver) -> None:
    """Results of tools among it. Instructions and tools go with each request: Google stores neither."""
    provider = Provider()
    session = started(driver, provider, tools=[add], system="Be brief.", options=STORED)
    driver.ask(session, "1+2?")
    assert driver.ask(session, "Again.").losses == ()
    assert provider.sent == [(None, ["user_input"]), ("v1_1", ["function_result"]), ("v1_2", ["user_input"])]
    assert [body["system_instruction"] for body in provider.bodies] == ["Be brief."] * 3
    assert all(body["tools"] for body in provider.bodies)
    assert len(session.messages) == 7


def test_the_whole_history_is_the_way_back(driver: Driver) -> None:
    """If Google forgot it, the turn goes on by itself, and the next turn does not try the same again."""
    provider = Provider()
    session = started(driver, provider, tools=[add], options=STORED)
    driver.ask(session, "1+2?")
    provider.forgetful = True
    assert driver.ask(session, "Again.").text == "4"
    assert provider.sent[-1] == (None, WHOLE)
    driver.ask(session, "And again.")
    assert len(provider.bodies) == 5


def test_an_edited_history_is_sent_whole(driver: Driver) -> None:
    """Google stores what was said before the edit."""
    provider = Provider()
    first = started(driver, provider, options=STORED)
    driver.ask(first, "One.")
    prompt, reply = first.messages
    edited = Message.user("Uno.", id=prompt.id)
    driver.ask(started(driver, provider, messages=(prompt, reply), options=STORED), "Two.")
    driver.ask(started(driver, provider, messages=(edited, reply), options=STORED), "Two.")
    assert [state for state, _ in provider.sent] == [None, "v1_1", None]
    assert provider.sent[2][1] == ["user_input", "model_output", "user_input"]


@pytest.mark.parametrize(
    ("state", "extra", "reason"),
    [
        ("conv_1", {}, "server_state: the endpoint is not known to store a conversation"),
        (True, {"store": False}, "server_state: with store: false, nothing is stored"),
        (True, {"previous_interaction_id": "v1_9"}, "server_state: extra names what to continue"),
    ],
)
def test_what_cannot_be_continued_is_a_loss(state: Any, extra: dict[str, Any], reason: str) -> None:
    options = AdapterOptions(server_state=state, extra={"google-interactions": extra})
    losses = get_adapter(GEMINI).to_wire([Message.user("Hi")], [], options).losses
    assert [loss.reason for loss in losses] == [reason]


class Worker:
    """Works in the background: gives the states in turn; it notes what is asked."""

    def __init__(self, *states: str | int) -> None:
        self._next: Iterator[str | int] = iter(states)
        self.asked: list[str] = []
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path.removeprefix(PATH)}")
        if request.content:
            self.bodies.append(json.loads(request.content))
        if request.url.path.endswith("/cancel"):
            return httpx.Response(200, json=interaction(1, "cancelled"))
        state = next(self._next)
        if isinstance(state, int):
            return httpx.Response(state, json={"error": {"code": "unavailable", "message": "no"}})
        fields: dict[str, Any] = {
            "completed": {"usage": USAGE}, "failed": {"errors": [{"code": "internal", "message": "boom"}]}
        }.get(state, {})  # fmt: skip
        steps = [text_step("Done.")] if state == "completed" else []
        return httpx.Response(200, json=interaction(1, state, *steps, **fields))


BACKGROUND = AdapterOptions(background=True)


def test_a_reply_in_the_background_is_followed_to_its_end(driver: Driver) -> None:
    """The reply costs what its end says, once."""
    provider, budget = Worker("queued", 503, "in_progress", "completed"), Budget(usd=10)
    session = started(driver, provider, budgets=[budget], options=BACKGROUND)
    assert driver.ask(session, "Think.").text == "Done."
    assert provider.asked == ["POST ", POLL, POLL, POLL]
    assert [(body["background"], "stream" in body) for body in provider.bodies] == [(True, False)]
    assert (session.usage.output_tokens, session.cost.replies) == (5, 1)


def test_a_stream_reports_progress(driver: Driver) -> None:
    session = started(driver, Worker("in_progress", "in_progress", "completed"), options=BACKGROUND)
    events = driver.stream(session, "Think.")
    assert [event.state for event in events if isinstance(event, BackgroundProgress)] == ["in_progress"] * 2
    assert events[-1].type == "message_complete"


@pytest.mark.parametrize(
    ("states", "error"),
    [
        (("in_progress", "failed"), ServerError),
        (("in_progress", "cancelled"), RequestCancelledError),
        (("in_progress",) * 99, RequestTimeoutError),
    ],
)
def test_a_reply_that_does_not_end_well_is_its_error(
    driver: Driver, states: Sequence[str], error: type[Exception]
) -> None:
    """It is asked for once. After the deadline it is cancelled."""
    provider = Worker(*states)
    with pytest.raises(error):
        driver.ask(started(driver, provider, options=AdapterOptions(background=30)), "Think.")
    assert provider.asked.count("POST ") == 1
    assert (provider.asked[-1] == CANCEL) is (error is RequestTimeoutError)


def test_options_of_a_request_are_read() -> None:
    """Whether it goes on in the background, and what is blocked."""
    adapter = get_adapter(GEMINI)
    safety = json.loads(adapter.to_wire([Message.user("Hi")], [], AdapterOptions(safety="off")).body)["safety_settings"]
    assert {"type": "hate_speech", "threshold": "off"} in safety
    native = {"model": "gemini-3-flash-preview", "input": "Hi", "background": True, "safety_settings": safety}
    messages, tools, options = adapter.from_wire_request(native, RequestContext.for_model(GEMINI))
    assert (options.background, options.safety) == (True, "off")
    assert json.loads(adapter.to_wire(messages, tools, options).body) == native


@pytest.mark.parametrize("stored", [True, False])
def test_a_reply_that_stopped_at_a_limit_is_resumed_by_its_token(driver: Driver, stored: bool) -> None:
    """Google has what it wrote; if it stores nothing, it gets the same input again. The next turn sends all of it."""
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        number = len(bodies)
        reply = interaction(number, "completed", text_step(f" part {number}"), usage=USAGE)
        if number < 3:
            reply |= {"status": "requires_continuation", "continuation_token": f"token_{number}"}
        return httpx.Response(200, json=reply if stored else {**reply, "id": ""})

    extra = {} if stored else {"google-interactions": {"store": False}}
    session = started(driver, answer, options=AdapterOptions(extra=extra))
    reply = driver.ask(session, "Write.")
    assert [message.text for message in reply.messages[1:]] == [" part 1", " part 2", " part 3"]
    driver.ask(session, "Thanks.")
    named = [{name: body.get(name) for name in ("previous_interaction_id", "continuation_token")} for body in bodies]
    ids = ["v1_1", "v1_2"] if stored else [None, None]
    assert [tuple(each.values()) for each in named] == [
        (None, None), (ids[0], "token_1"), (ids[1], "token_2"), (None, None)
    ]  # fmt: skip
    prompt = bodies[0]["input"]
    assert [body.get("input") for body in bodies[1:3]] == ([None, None] if stored else [prompt, prompt])
    assert [step["type"] for step in bodies[3]["input"]][::4] == ["user_input", "user_input"]
