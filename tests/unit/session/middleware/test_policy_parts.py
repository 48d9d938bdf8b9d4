"""What a model reads beside messages is judged, and sent as the plugins leave it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, Session, ToolDefinition
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy import (
    DataPolicy,
    Extensions,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    Violation,
    hook,
)
from dragoman.policy.extensions import ToolMetadata
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.plugins import Finder, Finding, Redaction, UntrustedData
from dragoman.server_tools import WebSearch
from dragoman.tools import Tool
from dragoman.tools.mcp import McpTool
from tests.unit.session.drivers import Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, Reply, handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import RecordingPlugin

WORD = "hunter2"


def find(text: str) -> Iterator[Finding]:
    at = text.find(WORD)
    while at >= 0:
        yield Finding(at, at + len(WORD), "word")
        at = text.find(WORD, at + 1)


def hiding(**more: Any) -> Redaction:
    return Redaction([Finder(find, max_length=len(WORD))], **more)


def of_a_server(name: str = "look", description: str = "Looks.", **schema: Any) -> Tool:
    """Return a tool as an MCP server describes it."""
    found = {"type": "object", "properties": {"path": {"type": "string", **schema}}}
    definition = ToolDefinition(name=name, description=description, input_schema=found, requires_workspace=False)
    return McpTool(
        definition, lambda path: "42", metadata=ToolMetadata(name=name, description=description, server_id="files")
    )


def look(path: str) -> str:
    """Looks for hunter2."""
    return "42"


def test_the_words_of_a_server_are_redacted(driver: Driver) -> None:
    """In the description and at any depth of the schema, in each request alike; its labels hold from then on."""
    wire = Wire([handwritten_anthropic("Fine.")] * 2)
    tools = [of_a_server(description=f"Looks for {WORD}.", enum=[WORD])]
    session = driver.session({"anthropic": wire}, tools=tools, policy=Pipeline([hiding(label="FOUND")]))
    driver.ask(session, "Hi")
    driver.ask(session, "Again")
    (first,), (second,) = (request["tools"] for request in wire.requests)
    assert first == second
    assert first["description"] == "Looks for [word]."
    assert first["input_schema"]["properties"]["path"]["enum"] == ["[word]"]
    assert session.labels == {"FOUND"}


def test_a_name_that_would_change_is_refused(driver: Driver) -> None:
    wire = Wire([handwritten_anthropic("Never.")])
    session = driver.session({"anthropic": wire}, tools=[of_a_server(WORD)], policy=Pipeline([hiding()]))
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(session, "Hi")
    assert (denied.value.code, wire.requests) == ("cannot_change", [])


def test_tools_of_the_program_are_its_own(driver: Driver) -> None:
    wire, recording = Wire([handwritten_anthropic("Fine.")]), RecordingPlugin(hooks=["llm_input"])
    session = driver.session({"anthropic": wire}, tools=[look], policy=Pipeline([recording]))
    driver.ask(session, "Hi")
    assert recording.at("cmf.llm_input") == ["Hi"]


def test_options_are_judged(driver: Driver) -> None:
    """Those that hold texts; a text that cannot be a value of the option any more is refused."""
    given = AdapterOptions(
        user=f"u {WORD}", stop_sequences=(WORD,), extra={"anthropic": {"x": {"y": [WORD]}, "z": ...}}
    )
    wire = Wire([handwritten_anthropic("Fine.")])
    driver.ask(driver.session({"anthropic": wire}, options=given, policy=Pipeline([hiding()])), "Hi")
    (request,) = wire.requests
    assert WORD not in json.dumps(request)
    assert request["x"] == {"y": ["[word]"]}
    assert request["stop_sequences"] == ["[word]"]

    @hook("llm_input", mode="transform")
    def breaking(step: Step) -> Message | None:
        is_option = str(step.message.role) == "system"
        return step.message.model_copy(update={"content": "{"}) if is_option else None

    with pytest.raises(PolicyDeniedError, match="cannot_change"):
        driver.ask(driver.session({"anthropic": Wire([])}, options=given, policy=Pipeline([breaking])), "Hi")


def searched(text: str = "A. Jones") -> Reply:
    """A reply with a search that the provider made."""
    whole = json.loads(handwritten_anthropic(f"It is {text}.").body)
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "who"}}
    page = {"type": "web_search_result", "url": "https://a.example", "title": text, "encrypted_content": "c2VjcmV0"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    whole["content"] = [call, found, *whole["content"]]
    return Reply(json.dumps(whole).encode(), (), "application/json")


def test_what_a_provider_found_is_untrusted(driver: Driver) -> None:
    """Its label keeps tools with side effects from running, and the search from being offered again."""
    wire = Wire([searched(), handwritten_anthropic(Call("toolu_1", "look", {"path": "a"}))])
    session = driver.session({"anthropic": wire}, tools=[look, WebSearch()], policy=Pipeline([UntrustedData()]))
    driver.ask(session, "Who is it?")
    assert session.labels == {"untrusted"}
    with pytest.raises(PolicyDeniedError, match="untrusted"):
        driver.ask(session, "Look.")
    assert [len(request["tools"]) for request in wire.requests] == [2, 1]
    trusted = UntrustedData(trusted=["tool://anthropic/web_search"])
    other = driver.session({"anthropic": Wire([searched()])}, tools=[WebSearch()], policy=Pipeline([trusted]))
    driver.ask(other, "Who is it?")
    assert other.labels == frozenset()


@pytest.mark.parametrize("plugins", [(), (RecordingPlugin(),)])
def test_what_a_provider_found_has_the_labels_of_its_tool(driver: Driver, plugins: tuple[Any, ...]) -> None:
    rules = {"web_search": DataPolicy(apply_labels=["WEB"])}
    session = driver.session(
        {"anthropic": Wire([searched()])},
        tools=[WebSearch()],
        policy=Pipeline(plugins),
        extensions=Extensions(security=SecurityExtension(data=rules)),
    )
    driver.ask(session, "Who is it?")
    assert session.labels == {"WEB"}
    assert session.messages[-1].metadata.labels == {"WEB"}


def test_a_denied_page_is_not_kept(driver: Driver) -> None:
    @hook("tool_post_invoke")
    def no_word(step: Step) -> Violation | None:
        shown: list[MessageView] = [*step.views()]
        return Violation("no", code="word") if any(WORD in (view.content or "") for view in shown) else None

    session = driver.session({"anthropic": Wire([searched(WORD)])}, tools=[WebSearch()], policy=Pipeline([no_word]))
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(session, "Who is it?")
    assert (denied.value.hook, session.messages) == ("cmf.tool_post_invoke", ())
    assert len(session.attempts) == 1  # it was paid for


def test_a_plugin_invents_no_native_block(driver: Driver) -> None:
    @hook("llm_output", mode="transform")
    def invents(step: Step) -> Message | None:
        block = {"type": "provider", "provider": "anthropic", "kind": "web_search_tool_result", "data": {"a": 1}}
        return step.message.model_copy(update={"content": (*step.message.content, block)})

    session = driver.session({"anthropic": Wire([handwritten_anthropic("Fine.")])}, policy=Pipeline([invents]))
    with pytest.raises(PolicyDeniedError, match="native block"):
        driver.ask(session, "Hi")


def test_results_of_a_given_history_pass_their_hook() -> None:
    @hook("tool_post_invoke", capabilities=["append_labels"])
    def label(step: Step) -> Extensions:
        assert labels_of(step.extensions) == frozenset()
        return with_labels(step.extensions, {"PHI"})

    call = {"type": "tool_use", "id": "tu_1", "name": "look", "input": {}}
    result = ToolResultBlock(tool_use_id="tu_1", content=())
    history = [Message.user("Hi"), Message.assistant([call]), Message(role="tool", content=(result,))]
    wire = Wire([handwritten_anthropic("Fine.")])
    session: Session = SyncDriver().session({"anthropic": wire}, messages=history, policy=Pipeline([label]))
    session.ask("And?")
    assert session.labels == {"PHI"}


def test_the_log_has_no_words_of_a_tool_that_a_policy_judges(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    def fails(path: str) -> str:
        """Fails."""
        raise ValueError(f"no {WORD} in {path}")

    wire = Wire([handwritten_anthropic(Call("toolu_1", "fails", {"path": "a"})), handwritten_anthropic("So it is.")])
    session = driver.session({"anthropic": wire}, tools=[fails], policy=Pipeline([hiding()]))
    driver.ask(session, "Go")
    assert "fails failed: ValueError" in caplog.text
    assert WORD not in caplog.text
    assert WORD not in json.dumps(wire.requests)
