"""Replies in the background: followed to their end, with progress, a deadline, and a request to stop. The provider is
written by hand; recorded exchanges show its states (queued, in_progress, completed)."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from dragoman import AdapterOptions, AsyncSession, Budget, Message, RequestContext, Session, get_adapter
from dragoman.adapter.errors import RequestError
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import TextBlock
from dragoman.errors import AuthenticationError, RequestCancelledError, RequestTimeoutError, ServerError
from dragoman.events import BackgroundProgress
from dragoman.policy import Pipeline, Step, hook
from dragoman.transport import Timing
from tests.unit.session.drivers import Driver, FakeTime

GPT = "openai:gpt-5.4"
BACKGROUND = AdapterOptions(background=True)
MESSAGE = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "completed": {"output": [MESSAGE], "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}},
    "failed": {"error": {"code": "server_error", "message": "boom"}},
}


def response(state: str) -> dict[str, Any]:
    fields = FIELDS.get(state, {})
    return {"id": "resp_1", "object": "response", "model": "gpt-5.4", "status": state, "output": [], **fields}


@dataclass
class Provider:
    """Gives the states in turn, or fails with a status; it notes what is asked."""

    states: Sequence[str | int]
    asked: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    _next: Iterator[str | int] = field(init=False)

    def __post_init__(self) -> None:
        self._next = iter(self.states)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.path.removeprefix('/v1/responses')}")
        if request.content:
            self.bodies.append(json.loads(request.content))
        if request.url.path.endswith("/cancel"):
            return httpx.Response(200, json=response("cancelled"))
        state = next(self._next)
        if isinstance(state, int):
            return httpx.Response(state, json={"error": {"message": "no"}})
        return httpx.Response(200, json=response(state))


POLL, CANCEL = "GET /resp_1", "POST /resp_1/cancel"


def started(driver: Driver, provider: Any, **settings: Any) -> Any:
    return driver.session({"openai": provider}, GPT, **{"options": BACKGROUND, **settings})


def test_a_reply_is_followed_to_its_end(driver: Driver) -> None:
    """It costs what its end says, once, for the session and for a budget."""
    provider, budget = Provider(["queued", "in_progress", "completed"]), Budget(usd=10)
    session = started(driver, provider, budgets=[budget])
    reply = driver.ask(session, "Think.")
    assert (reply.text, provider.asked) == ("Done.", ["POST ", POLL, POLL])
    assert provider.bodies == [
        {"model": "gpt-5.4", "input": [{"role": "user", "content": "Think."}], "background": True}
    ]
    assert (session.usage.output_tokens, session.cost.replies) == (5, 1)
    assert [message.role for message in session.messages] == ["user", "assistant"]


def test_a_stream_reports_progress(driver: Driver) -> None:
    """The events of the reply come at its end, under one id."""
    session = started(driver, Provider(["queued", "in_progress", "completed"]))
    events = driver.stream(session, "Think.")
    kinds = [event.type for event in events]
    assert kinds == ["message_start", *["background_progress"] * 2, "usage_update", "text_delta", "message_complete"]
    assert [event.state for event in events if isinstance(event, BackgroundProgress)] == ["queued", "in_progress"]
    assert len({event.message_id for event in events if hasattr(event, "message_id")}) == 1


def test_waits_grow_to_a_limit(driver: Driver) -> None:
    fake_time = FakeTime()
    session = started(driver, Provider(["queued"] * 9 + ["completed"]), fake_time=fake_time)
    driver.ask(session, "Think.")
    waits = [seconds for seconds in fake_time.slept if seconds]
    assert waits[:2] == [1.0, 1.5]
    assert max(waits) == waits[-1] == 10.0


def test_a_deadline_cancels(driver: Driver) -> None:
    """The history is as before, and nothing is asked again."""
    provider, fake_time = Provider(["queued"] * 99), FakeTime()
    session = started(driver, provider, fake_time=fake_time, options=AdapterOptions(background=30))
    with pytest.raises(RequestTimeoutError, match="not complete in 30 seconds") as caught:
        driver.ask(session, "Think.")
    assert sum(fake_time.slept) == 30
    assert (provider.asked[-1], provider.asked.count("POST "), session.messages) == (CANCEL, 1, ())
    assert (caught.value.provider, caught.value.partial is not None) == ("openai", True)


def test_leaving_the_stream_cancels(driver: Driver) -> None:
    provider = Provider(["queued"] * 99)
    driver.stream(started(driver, provider), "Think.", until="background_progress")
    assert provider.asked[-1] == CANCEL


def test_a_cancelled_task_cancels() -> None:
    provider = Provider(["queued"] * 99)

    async def main() -> None:
        waiting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waiting.set()
            await asyncio.Event().wait()

        client = httpx.AsyncClient(transport=httpx.MockTransport(provider))
        settings = {"client": client, "api_key": "k", "timing": Timing(sleep_async=sleep)}
        session = AsyncSession(GPT, providers={"openai": settings}, options=BACKGROUND)
        task = asyncio.create_task(session.ask("Think."))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert provider.asked == ["POST ", CANCEL]


@pytest.mark.parametrize(
    ("states", "error"),
    [(["failed"], ServerError), (["cancelled"], RequestCancelledError), ([401], AuthenticationError)],
)
def test_a_reply_that_fails_is_its_error(driver: Driver, states: list[str | int], error: type[Exception]) -> None:
    """It is not asked for again: it may have been billed."""
    provider = Provider(["queued", *states])
    with pytest.raises(error):
        driver.ask(started(driver, provider), "Think.")
    assert provider.asked.count("POST ") == 1


def test_failing_polls_are_survived(driver: Driver) -> None:
    """The reply goes on without them; only several in a row end the turn."""
    provider = Provider(["queued", 503, 503, 503, "in_progress", "completed"])
    assert driver.ask(started(driver, provider), "Think.").text == "Done."
    endless = Provider(["queued", *[503] * 99])
    with pytest.raises(Exception, match="no"):
        driver.ask(started(driver, endless), "Think.")
    assert len(endless.asked) < 30


def test_a_policy_judges_the_end(driver: Driver) -> None:
    @hook("llm_output")
    def redact(step: Step) -> Message | None:
        return step.message.model_copy(update={"content": (TextBlock(text="***"),)}) if step.message.text else None

    session = started(driver, Provider(["queued", "completed"] * 2), policy=Pipeline([redact]))
    assert driver.ask(session, "Think.").text == "***"
    events = driver.stream(session, "Think.")
    assert [event.text for event in events if event.type == "text_delta"] == ["***"]


def test_an_endpoint_without_it_has_a_loss() -> None:
    for model in ("anthropic:claude-sonnet-4-5", "openai-chat:gpt-4.1", "xai:grok-4.5", "openrouter:openai/gpt-5"):
        wire = get_adapter(model).to_wire([Message.user("Hi")], [], BACKGROUND)
        assert [loss.reason.partition(":")[0] for loss in wire.losses] == ["background"]


@pytest.mark.parametrize("value", [0, -1, "yes", float("nan"), float("inf")])
def test_a_wrong_value_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="background must be True or a number of seconds"):
        AdapterOptions(background=value)


def test_an_adapter_alone_names_the_requests() -> None:
    """Of a reply that runs, also one that was stored and read again; not of one that has ended."""
    adapter, context = get_adapter("azure-openai:gpt-5.4"), RequestContext.for_model("azure-openai:gpt-5.4")
    running = adapter.from_wire_response(WireResponse(200, json.dumps(response("queued")).encode()), context)
    poll, stop = adapter.poll_request(running), adapter.cancel_request(running)
    assert poll is not None
    assert stop is not None
    assert (poll.method, poll.path, stop.method, stop.path) == (
        "GET", "/responses/resp_1", "POST", "/responses/resp_1/cancel"
    )  # fmt: skip
    ended = adapter.from_wire_response(WireResponse(200, json.dumps(response("completed")).encode()), context)
    assert adapter.poll_request(ended) is adapter.cancel_request(ended) is None
    assert Session(GPT).model == GPT
    assert get_adapter("anthropic:claude-sonnet-4-5").poll_request(running) is None
