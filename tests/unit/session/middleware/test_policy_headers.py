"""Headers from plugins are sent with the request of their step, and with no other."""

from typing import Any

import httpx
import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.events import EventBus
from dragoman.policy import Extensions, HttpExtension, Mode, Pipeline, PolicyDeniedError, Step, hook
from dragoman.routing import Router
from tests.unit.session.drivers import ANTHROPIC, KEY, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import (
    Call,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)

INPUT = "cmf.llm_input"
HOST = Extensions(http=HttpExtension(headers={"Authorization": "Bearer of-the-user", "X-From": "web"}))


class HeaderWire(Wire):
    """Keeps the headers of its requests."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(replies)
        self.headers: list[httpx.Headers] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.headers.append(request.headers)
        return super().__call__(request)

    def at(self, name: str) -> list[str | None]:
        return [headers.get(name) for headers in self.headers]


def header_plugin(headers: dict[str, str], *hooks: str, when: str = "", **declared: Any) -> Any:
    """Adds headers if the text contains ``when``."""

    @hook(*(hooks or (INPUT,)), capabilities=["write_headers"], **declared)
    def write(step: Step) -> Extensions | None:
        if not any(when in (view.content or "") for view in step.views()):
            return None
        slot = step.extensions.http or HttpExtension()
        return step.extensions.model_copy(update={"http": HttpExtension(headers={**slot.headers, **headers})})

    return write


def test_policy_headers_are_sent_with_the_request_and_its_retries(driver: Driver) -> None:
    """They override the program's own of that name; headers of the program's incoming request are not sent."""
    wire = HeaderWire([handwritten_overloaded()], handwritten_anthropic("Fine."), handwritten_anthropic("Fine."))
    events: list[Any] = []
    with EventBus(strict=True) as bus:
        bus.subscribe(events.append, types="policy.*")
        session = driver.session(
            {"anthropic": wire},
            policy=Pipeline([header_plugin({"X-Trace": "t1"}, when="first", mode=Mode.TRANSFORM)]),
            extensions=HOST,
            options=AdapterOptions(headers={"anthropic": {"x-trace": "own"}}),
            events=bus,
        )
        driver.stream(session, "The first.")
        driver.ask(session, "The second.")
    assert wire.at("x-trace") == ["t1", "t1", "own"]
    assert wire.at("authorization") == wire.at("x-from") == [None] * 3
    assert wire.at("x-api-key") == [KEY] * 3
    assert {event.payload.names for event in events} == {("x-trace",)}
    assert "t1" not in "".join(event.to_json() for event in events)


def test_each_tool_round_starts_with_fresh_headers(driver: Driver) -> None:
    def look() -> str:
        """Looks."""
        return "found"

    wire = HeaderWire(handwritten_anthropic(Call("toolu_1", "look")), handwritten_anthropic("Fine."))
    plugins = [
        header_plugin({"x-said": "1"}, when="Go"),
        header_plugin({"x-found": "1"}, when="found", name="finding"),
    ]
    for number, plugin in enumerate(plugins):
        plugin.name = f"plugin_{number}"
    driver.ask(driver.session({"anthropic": wire}, tools=[look], policy=Pipeline(plugins)), "Go")
    assert (wire.at("x-said"), wire.at("x-found")) == (["1", None], [None, "1"])


@pytest.mark.parametrize("hook_name", ["cmf.tool_pre_invoke", "cmf.tool_post_invoke", "cmf.llm_output"])
def test_headers_that_are_sent_with_nothing_are_refused(driver: Driver, hook_name: str) -> None:
    """A header of a tool call would be lost: its plugin relies on it."""

    def look() -> str:
        """Looks."""
        return "found"

    wire = HeaderWire(handwritten_anthropic(Call("toolu_1", "look")), handwritten_anthropic("Fine."))
    policy = Pipeline([header_plugin({"x-called": "1"}, hook_name)])
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(driver.session({"anthropic": wire}, tools=[look], policy=policy), "Go")
    assert (denied.value.hook, denied.value.code) == (hook_name, "headers")
    assert wire.at("x-called") == [None]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-trace", "one\r\nx-other: two"), ("x trace", "value"), ("Host", "elsewhere"), ("Content-Length", "1000"),
        ("Authorization", "Bearer of-another"), ("x-goog-api-key", "AIza"), ("api-key", "sk-1"), ("Cookie", "a=b"),
        ("x-amz-security-token", "secret"), ("X-Some-Key", "secret"),
    ],
)  # fmt: skip
def test_invalid_policy_headers_are_not_sent(driver: Driver, name: str, value: str) -> None:
    """Invalid by the rules of every request, or the key of another provider: nothing is sent then."""
    wire = HeaderWire(handwritten_anthropic("Never."))
    session = driver.session({"anthropic": wire}, policy=Pipeline([header_plugin({name: value})]))
    with pytest.raises((RequestError, PolicyDeniedError)) as raised:
        driver.ask(session, "Hi")
    assert (wire.headers, session.messages) == ([], ())
    assert value not in str(raised.value)


def test_a_plugin_may_write_the_key_of_the_provider(driver: Driver) -> None:
    """A plugin may write the key of the provider, such as a token that a plugin fetched."""
    wire = HeaderWire(handwritten_anthropic("Fine."))
    driver.ask(
        driver.session({"anthropic": wire}, policy=Pipeline([header_plugin({"X-Api-Key": "fetched-token"})])), "Hi"
    )
    assert wire.at("x-api-key") == ["fetched-token"]


def test_headers_are_sent_only_to_their_provider(driver: Driver) -> None:
    """If a fallback answers, and if the model was not yet chosen."""

    @hook(INPUT, capabilities=["write_headers"])
    def token(step: Step) -> Extensions:
        provider = step.extensions.llm.provider if step.extensions.llm else None
        slot = step.extensions.http or HttpExtension()
        headers = dict(slot.headers)
        if provider != "ollama":
            headers |= {f"x-for-{provider}": "1", "x-api-key": "of-anthropic"}
        return step.extensions.model_copy(update={"http": HttpExtension(headers=headers)})

    wires = {
        "anthropic": HeaderWire(*[[handwritten_overloaded()]] * 3),
        "ollama": HeaderWire(handwritten_ollama("Fine.")),
    }
    router = Router(workspace_default=ANTHROPIC, global_default=OLLAMA)
    session = driver.session(wires, None, policy=Pipeline([token]), router=router)
    driver.stream(session, "Hi")
    assert wires["anthropic"].at("x-api-key") == ["of-anthropic"] * 3
    assert wires["anthropic"].at("x-for-anthropic") == ["1"] * 3
    (request_headers,) = wires["ollama"].headers
    assert not {"x-api-key", "x-for-anthropic"} & set(request_headers)
