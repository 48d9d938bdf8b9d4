"""Tools of the provider in a session: asked for, streamed, previewed, and called by the program."""

import json
from typing import Any

import httpx
import pytest

from dragoman import Session, SwapRefusedError, tool
from dragoman.errors import ConfigurationError, ExpiredReferenceError, ToolSchemaError
from dragoman.server_tools import Bash, CodeExecution, McpServer, Memory, ProviderTool, WebSearch
from dragoman.session import Toolbox
from tests.unit.session.drivers import Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

CLAUDE = "anthropic:claude-sonnet-4-5"


@tool(side_effects="none")
def look_up(name: str) -> str:
    """Looks it up."""
    return name


def test_server_tools_stand_beside_functions(driver: Driver) -> None:
    """Server tools stand beside functions in a whole reply and in a stream."""
    wire = Wire([handwritten_anthropic("One."), handwritten_anthropic("Two.")])
    session = driver.session({"anthropic": wire}, CLAUDE, tools=[look_up, WebSearch(max_uses=1), CodeExecution()])
    driver.ask(session, "Hi")
    driver.stream(session, "And?")
    for request in wire.requests:
        assert [each["name"] for each in request["tools"]] == ["look_up", "web_search", "code_execution"]


def test_the_program_runs_the_calls_of_its_native_tools(driver: Driver) -> None:
    """Arguments are checked against the provider's schema, and the result goes back."""
    seen: list[dict[str, Any]] = []

    def remember(**fields: Any) -> str:
        seen.append(fields)
        return "empty"

    call = Call("toolu_1", "memory", {"command": "view", "path": "/memories"})
    wire = Wire([handwritten_anthropic(call), handwritten_anthropic("Nothing yet.")])
    session = driver.session({"anthropic": wire}, CLAUDE, tools=[Memory(function=remember)])
    assert driver.ask(session, "What do you know?").text == "Nothing yet."
    assert seen == [{"command": "view", "path": "/memories"}]
    assert wire.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert wire.requests[1]["messages"][-1]["content"][0]["content"] == "empty"


def test_a_swap_to_a_model_without_the_tool_is_refused() -> None:
    """The preview says so before, and what is optional is a loss."""
    required = Session(CLAUDE, tools=[WebSearch()])
    preview = required.preview("ollama:qwen3:4b")
    assert not preview.fits
    assert "has no web_search" in preview.reasons[0]
    with pytest.raises(SwapRefusedError, match="has no web_search"):
        required.swap("ollama:qwen3:4b")
    assert required.swap("openai:gpt-5.4").fits
    optional = Session(CLAUDE, tools=[WebSearch(required=False), ProviderTool("anthropic", {"type": "x"})])
    assert [str(loss.kind) for loss in optional.swap("ollama:qwen3:4b").losses] == ["tools", "tools"]


def test_a_model_that_calls_no_functions_may_have_server_tools() -> None:
    """Sonar searches, and calls no function."""
    assert Session(CLAUDE, tools=[WebSearch()]).preview("perplexity:sonar").fits
    assert not Session(CLAUDE, tools=[WebSearch(), look_up]).preview("perplexity:sonar").fits


def test_faulty_tools_are_refused_when_they_are_registered() -> None:
    """Two of one name, and a tool of the program without its function."""
    with pytest.raises(ToolSchemaError, match="registered already"):
        Toolbox([WebSearch(), McpServer(name="web_search", url="https://mcp.example.org")])
    with pytest.raises(ConfigurationError, match="give its function"):
        Toolbox([Bash()])


def test_fields_of_a_function_come_from_its_decorator() -> None:
    """They are those of the definition."""

    @tool(strict=True, defer_loading=True, extra={"anthropic": {"input_examples": [{"name": "a"}]}})
    def find(name: str) -> str:
        """Finds it."""
        return name

    definition = find.definition
    assert (definition.strict, definition.defer_loading) == (True, True)
    assert json.loads(json.dumps(dict(definition.extra))) == {"anthropic": {"input_examples": [{"name": "a"}]}}


def gone(message: str = "container: container_1 has expired.") -> httpx.Response:
    return httpx.Response(400, json={"type": "error", "error": {"type": "invalid_request_error", "message": message}})


def with_container(text: str) -> httpx.Response:
    """A reply whose code ran in a container."""
    body = json.loads(handwritten_anthropic(text).body)
    return httpx.Response(200, json={**body, "container": {"id": "container_1", "expires_at": "2099-01-01T00:00:00Z"}})


def test_a_container_that_is_gone_does_not_block_the_conversation(driver: Driver) -> None:
    """The request is sent once more without it, and the next request names it no longer than the provider has it."""
    wire = Wire([with_container("Ran."), gone(), handwritten_anthropic("Ran again.")])
    session = driver.session({"anthropic": wire}, CLAUDE, tools=[CodeExecution()])
    driver.ask(session, "Run it.")
    assert driver.ask(session, "Again.").text == "Ran again."
    assert [request.get("container") for request in wire.requests] == [None, "container_1", None]
    assert len(session.messages) == 4


def test_a_container_that_the_program_names_is_not_replaced(driver: Driver) -> None:
    """Its files are what the program wants: the error says that it is gone."""
    wire = Wire([gone()])
    named = CodeExecution(container={"anthropic": "container_1"})
    with pytest.raises(ExpiredReferenceError):
        driver.ask(driver.session({"anthropic": wire}, CLAUDE, tools=[named]), "Run it.")
    assert [request["container"] for request in wire.requests] == ["container_1"]


def test_a_container_is_left_out_once(driver: Driver) -> None:
    """A provider that refuses both requests gets no third one, and the history stays as it was."""
    wire = Wire([with_container("Ran."), gone(), gone()])
    session = driver.session({"anthropic": wire}, CLAUDE, tools=[CodeExecution()])
    driver.ask(session, "Run it.")
    with pytest.raises(ExpiredReferenceError, match="then makes a new one") as caught:
        driver.ask(session, "Again.")
    assert caught.value.reference == "container"
    assert (len(wire.requests), len(session.messages)) == (3, 2)
