"""Where a request leaves: what is decided there about tools that a provider runs, and what plugins see there."""

from typing import Any

import httpx
import pytest

from dragoman import Message
from dragoman.events import EventBus
from dragoman.policy import (
    DataPolicy,
    Extensions,
    Mode,
    ObjectSecurityProfile,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    SubjectExtension,
    SubjectType,
    Violation,
    hook,
)
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.plugins import AllowUris, Confirmation, ObjectAccess, UntrustedData
from dragoman.server_tools import CodeExecution, McpServer, WebSearch
from tests.gateway.upstream import gateway_before, question, whole_reply
from tests.unit.session.drivers import Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic


def look() -> str:
    """Looks."""
    return "A. Jones"


def offered(wire: Wire) -> list[list[str]]:
    """Return the names of the tools of each request."""
    return [
        [tool.get("name") or tool["mcp_server_name"] for tool in request.get("tools", ())] for request in wire.requests
    ]


def looking() -> Wire:
    return Wire([handwritten_anthropic(Call("toolu_1", "look")), *([handwritten_anthropic("Fine.")] * 4)])


def data(**policy: Any) -> Extensions:
    return Extensions(security=SecurityExtension(data={"look": DataPolicy(**policy)}))


@pytest.mark.parametrize(
    ("tool", "denied"),
    [
        (WebSearch(), ["export"]),
        (CodeExecution(), ["execute"]),
        (CodeExecution(), ["export"]),
        (CodeExecution(network="off"), ["execute"]),
        (McpServer(name="docs", url="https://mcp.example.org"), ["export"]),
    ],
)
def test_a_denied_action_withholds_the_tool_that_a_provider_would_run(
    driver: Driver, tool: Any, denied: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """From the data on: before it, the tool is offered. The denial is announced."""
    wire, bus, codes = looking(), EventBus(), []
    bus.subscribe(lambda event: codes.append(getattr(event.payload, "code", None)), name="codes")
    session = driver.session(
        {"anthropic": wire}, tools=[look, tool], policy=Pipeline(), extensions=data(denied_actions=denied), events=bus
    )
    driver.ask(session, "Look.")
    bus.flush()
    assert offered(wire) == [["look", tool.name], ["look"]]
    assert "data_policy" in codes
    assert f"{tool.name} is not offered" in caplog.text


def test_what_the_data_allows_is_offered(driver: Driver) -> None:
    wire = looking()
    tools = [look, WebSearch(), CodeExecution(network="off")]
    session = driver.session(
        {"anthropic": wire}, tools=tools, policy=Pipeline(), extensions=data(denied_actions=["write"])
    )
    driver.ask(session, "Look.")
    assert offered(wire) == [["look", "web_search", "code_execution"]] * 2


def test_a_forced_choice_of_a_withheld_tool_is_dropped(driver: Driver) -> None:
    wire = Wire([handwritten_anthropic("Fine.")])
    policy = Pipeline([AllowUris("tool://_/**")])
    session = driver.session({"anthropic": wire}, tools=[WebSearch()], policy=policy)
    driver.ask(session, "Hi", tool_choice="required")
    assert offered(wire) == [[]]
    assert "tool_choice" not in wire.requests[0]


def test_patterns_name_the_tools_of_a_provider(driver: Driver) -> None:
    """The provider is the namespace."""
    for patterns, expected in (
        (["tool://_/**"], ["look"]),
        (["tool://_/**", "tool://anthropic/web_search"], ["look", "web_search"]),
    ):
        wire = Wire([handwritten_anthropic("Fine.")])
        policy = Pipeline([AllowUris(*patterns)])
        session = driver.session({"anthropic": wire}, tools=[look, WebSearch()], policy=policy)
        driver.ask(session, "Hi")
        assert offered(wire) == [expected]


def test_a_person_confirms_a_tool_of_the_provider_once_a_turn(driver: Driver) -> None:
    asked: list[tuple[str | None, Any]] = []

    def confirm(view: Any) -> bool:
        asked.append((view.name, dict(view.args)))
        return view.name != "code_execution"

    wire = looking()
    server = McpServer(name="docs", url="https://mcp.example.org", authorization="secret")
    policy = Pipeline([Confirmation(confirm, {"look": "read"})])
    session = driver.session({"anthropic": wire}, tools=[look, server, CodeExecution()], policy=policy)
    driver.ask(session, "Look.")
    assert offered(wire) == [["look", "docs"]] * 2
    assert sorted(name for name, _ in asked if name) == ["code_execution", "docs"]
    assert "secret" not in repr(asked)
    assert ("docs", {"url": "https://mcp.example.org"}) in [
        (name, {key: value for key, value in given.items() if key == "url"}) for name, given in asked
    ]
    driver.ask(session, "Again.")
    assert len(asked) == 4


def test_untrusted_data_takes_away_what_reaches_the_web(driver: Driver) -> None:
    wire = looking()
    session = driver.session({"anthropic": wire}, tools=[look, WebSearch()], policy=Pipeline([UntrustedData()]))
    driver.ask(session, "Look.")
    assert offered(wire) == [["look", "web_search"], ["look"]]


@pytest.mark.parametrize("permissions", [frozenset[str](), frozenset({"web"})])
@pytest.mark.parametrize("plugins", [(), (ObjectAccess(),)])
def test_a_subject_without_the_permission_is_not_offered_the_tool(
    driver: Driver, permissions: frozenset[str], plugins: tuple[Any, ...]
) -> None:
    subject = SubjectExtension(id="u1", type=SubjectType.USER, permissions=permissions)
    profiles = {"web_search": ObjectSecurityProfile(permissions=["web"])}
    extensions = Extensions(security=SecurityExtension(subject=subject, objects=profiles))
    wire = Wire([handwritten_anthropic("Fine.")])
    session = driver.session({"anthropic": wire}, tools=[WebSearch()], policy=Pipeline(plugins), extensions=extensions)
    driver.ask(session, "Hi")
    assert offered(wire) == [["web_search"] if permissions else []]


def test_the_hook_of_a_request_sees_all_labels_and_may_deny(driver: Driver) -> None:
    """Labels that plugins add there are seen by all of them, and their denials stop the request."""
    seen: list[frozenset[str]] = []

    @hook("request", capabilities=["read_labels"])
    def guard(step: Step) -> Violation | None:
        seen.append(labels_of(step.extensions))
        assert step.message.content == ()
        model = step.extensions.llm
        assert model is not None
        assert model.provider == "anthropic"
        return Violation("no", code="late") if "late" in labels_of(step.extensions) else None

    @hook("request", mode=Mode.CONCURRENT, capabilities=["append_labels"])
    def label(step: Step) -> Extensions:
        return with_labels(step.extensions, {"late"})

    wire = Wire([handwritten_anthropic("Never.")])
    session = driver.session({"anthropic": wire}, policy=Pipeline([guard, label]))
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(session, "Hi")
    assert (denied.value.hook, denied.value.code, denied.value.sent) == ("request", "late", False)
    assert seen == [frozenset(), frozenset({"late"})]
    assert (wire.requests, session.messages) == ([], ())


def test_a_request_whose_labels_never_end_is_denied() -> None:
    numbers = iter(range(1_000))

    @hook("request", capabilities=["append_labels"])
    def label(step: Step) -> Extensions:
        return with_labels(step.extensions, {f"label {next(numbers)}"})

    wire, pipeline = Wire([handwritten_anthropic("Never.")]), Pipeline([label])
    with pytest.raises(PolicyDeniedError, match="each time"):
        SyncDriver().session({"anthropic": wire}, policy=pipeline).ask("Hi")
    with pytest.raises(PolicyDeniedError, match="each time"):
        pipeline.run("llm_input", Message.user("Hi"))


@pytest.mark.parametrize("mode", [Mode.TRANSFORM, Mode.SEQUENTIAL])
def test_what_a_plugin_writes_is_judged_by_those_before_it(driver: Driver, mode: Mode) -> None:
    @hook("llm_input", "llm_output", priority=1)
    def guard(step: Step) -> Violation | None:
        return Violation("no", code="word") if "hunter2" in step.message.text else None

    @hook("llm_input", mode=mode, priority=2)
    def write(step: Step) -> Message:
        return step.message.model_copy(update={"content": f"{step.message.text} hunter2"})

    wire = Wire([handwritten_anthropic("Never.")])
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(driver.session({"anthropic": wire}, policy=Pipeline([guard, write])), "Hi")
    assert (denied.value.plugin, denied.value.code, wire.requests) == ("guard", "word", [])


def test_one_that_would_remove_what_a_later_one_adds_denies() -> None:
    """Its change would have to be judged by the later one again. One that appends found nothing new."""

    @hook("evaluate", priority=1)
    def remove(step: Step) -> Message:
        return step.message.model_copy(update={"content": step.message.text.replace("4711", "#")})

    @hook("evaluate", priority=2)
    def append(step: Step) -> Message:
        return step.message.model_copy(update={"content": f"{step.message.text} +"})

    @hook("evaluate", mode=Mode.TRANSFORM)
    def reveal(step: Step) -> Message:
        return step.message.model_copy(update={"content": f"{step.message.text} 4711"})

    assert Pipeline([remove, append]).run("evaluate", Message.user("4711")).message.text == "# +"
    with pytest.raises(PolicyDeniedError) as denied:
        Pipeline([remove, append, reveal]).run("evaluate", Message.user("Hi"))
    assert (denied.value.plugin, denied.value.code) == ("remove", "cannot_change")


def test_the_gateway_withholds_it_from_the_bytes_of_a_client() -> None:
    """The provider of the client's wire gets a request without the tool, and else the same."""
    settings = {"models": {"house": "anthropic:claude-opus-4-6"}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    body = {**question("messages", "house"), "tools": [search]}
    for patterns, expected in ((["tool://anthropic/**"], 1), (["tool://_/**"], 0)):
        client = {"policy": [AllowUris(*patterns)]}
        with gateway_before(whole_reply("messages"), client=client, **settings) as (url, server):
            assert httpx.post(f"{url}/v1/messages", json=body).status_code == 200
            (received,) = server.requests
        assert received.body.count(b"web_search_20250305") == expected
