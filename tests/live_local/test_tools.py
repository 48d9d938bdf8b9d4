"""The embedded model calls tools and answers from their results, in histories of its own and of others."""

import asyncio
import json

import jsonschema_rs
import pytest

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.events import MessageComplete, StreamEvent, ToolUseEnd, ToolUseInputDelta
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.session import Session, tool
from dragoman.transport.local import AsyncLocalTransport
from dragoman.transport.local.files import model_file
from tests.live_local.conftest import MODEL, Asker

READ = ToolDefinition(
    name="read_file",
    description="Read a file of the workspace",
    input_schema={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Path of the file"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
ADD = ToolDefinition(
    name="add",
    description="Add two numbers",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "unit": {"enum": ["cm", "m"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
TOOLS = (READ, ADD)


@pytest.mark.parametrize("choice", ["required", NamedTool("add")])
def test_a_forced_call_is_one_that_its_schema_allows(ask: Asker, choice: object) -> None:
    """Whatever was said, exactly one call comes, and its arguments are valid."""
    reply = ask("Hello there!", TOOLS, tool_choice=choice, max_output_tokens=80)
    (call,) = reply.tool_uses
    assert reply.content == (call,)
    assert reply.stop_reason is StopReason.TOOL_USE
    definition = next(tool for tool in TOOLS if tool.name == call.name)
    jsonschema_rs.validate(definition.input_schema, call.input)
    if isinstance(choice, NamedTool):
        assert call.name == "add"


@pytest.mark.parametrize(
    ("words", "name", "arguments"),
    [
        ("Read the file README.md and tell me what it says.", "read_file", {"path": "README.md"}),
        ("Please look at data/config.json and say which port it uses.", "read_file", {"path": "data/config.json"}),
        ("Add 4 and 5", "add", {"a": 4, "b": 5}),
    ],
)
def test_it_calls_where_it_is_asked_to(ask: Asker, words: str, name: str, arguments: dict[str, object]) -> None:
    """With tool_choice left open, a message that speaks of a tool's object is answered by a call of it."""
    (call,) = ask(words, TOOLS).tool_uses
    assert (call.name, call.input) == (name, arguments)


@pytest.mark.parametrize(("words", "options"), [("Hello!", {}), ("Read README.md.", {"tool_choice": "none"})])
def test_it_speaks_where_no_call_is_due(ask: Asker, words: str, options: dict[str, object]) -> None:
    """Small talk is answered in words, and so is everything where calls are forbidden."""
    reply = ask(words, TOOLS, max_output_tokens=20, **options)
    assert reply.tool_uses == ()
    assert reply.text


def test_a_streamed_call_is_the_whole_one(ask: Asker) -> None:
    """Its fragments join to its input, and async agrees with sync."""
    context = ask.context()
    wire = ask.adapter.to_wire([Message.user("Read notes.txt.")], TOOLS, AdapterOptions(context=context, stream=True))
    with ask.transport.stream(ask.adapter, wire) as reply:
        events = list(ask.adapter.iter_stream(reply.chunks, context))

    async def streamed() -> list[StreamEvent]:
        async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
            return [event async for event in ask.adapter.stream_response(reply.chunks, context)]

    (whole,) = ask("Read notes.txt.", TOOLS).tool_uses
    for told in (events, asyncio.run(streamed())):
        (end,) = [event for event in told if isinstance(event, ToolUseEnd)]
        assert end.final_input == whole.input == {"path": "notes.txt"}
        fragments = [event.partial_json for event in told if isinstance(event, ToolUseInputDelta)]
        assert len(fragments) > 1
        assert '"path"' in "".join(fragments)
        assert isinstance(told[-1], MessageComplete)


def test_a_call_that_the_length_cut_runs_nothing(ask: Asker) -> None:
    """Its arguments stay text."""
    (call,) = ask("Read the file README.md", TOOLS, max_output_tokens=20).tool_uses
    assert call.input == {}
    assert call.raw_input is not None


def test_a_file_by_its_path_is_prompted_as_larger_models_are(ask: Asker) -> None:
    """Nothing is known of it, so it is left the choice, and the grammar alone sees to the form of its calls."""
    by_path = Asker(f"local:{model_file('smollm2-135m')}")
    forced = by_path("Read README.md", TOOLS, tool_choice="required", parallel_tool_calls=False, max_output_tokens=80)
    (call,) = forced.tool_uses
    definition = next(tool for tool in TOOLS if tool.name == call.name)
    jsonschema_rs.validate(definition.input_schema, call.input)
    assert forced.metadata.model == str(by_path.adapter.model_id)
    assert by_path("Hello!", TOOLS, max_output_tokens=10).text
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    either = by_path("Is water wet? Answer in JSON.", TOOLS, output_schema=schema, max_output_tokens=80)
    assert either.tool_uses or "ok" in json.loads(either.text)


def from_anthropic() -> list[Message]:
    """A call as Anthropic's wire brings it, with its result: a handwritten reply in the documented form."""
    theirs = get_adapter("anthropic:claude-opus-5-5")
    body = (
        b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":['
        b'{"type":"thinking","thinking":"A file.","signature":"c2ln"},{"type":"tool_use","id":"toolu_1",'
        b'"name":"read_file","input":{"path":"config.toml"}}],"stop_reason":"tool_use",'
        b'"usage":{"input_tokens":5,"output_tokens":5}}'
    )
    called = theirs.from_wire_response(WireResponse(200, body), RequestContext(model=str(theirs.model_id)))
    (call,) = called.tool_uses
    return [
        Message.user("Use read_file to read config.toml and tell me the port."),
        called,
        Message.tool(call.id, "port = 8080"),
        Message.assistant("The port is 8080."),
    ]


def test_it_goes_on_where_another_provider_left_off(ask: Asker) -> None:
    """It reads the others' calls and results, calls itself, and answers from the result."""
    history = [*from_anthropic(), Message.user("Read notes.txt. When does the new port go live?")]
    called = ask(history, TOOLS)
    (call,) = called.tool_uses
    assert (call.name, call.input) == ("read_file", {"path": "notes.txt"})
    answer = ask([*history, called, Message.tool(call.id, "The new port goes live on Monday.")], TOOLS)
    assert answer.tool_uses == ()
    assert "Monday" in answer.text


def test_several_results_and_an_error_are_answered_in_words(ask: Asker) -> None:
    """Parallel calls of another model, one of which failed, are a history like any other."""
    calls = [ToolUseBlock(id=f"tu_{name}", name="read_file", input={"path": name}) for name in ("a.txt", "b.txt")]
    history = [
        Message.user("Read a.txt and b.txt."),
        Message.assistant(calls),
        Message.tool("tu_a.txt", "The cat is black and its name is Milo."),
        Message.tool("tu_b.txt", "no such file", is_error=True),
    ]
    reply = ask(history, TOOLS, max_output_tokens=40)
    assert reply.text
    assert reply.tool_uses == ()


def test_a_session_runs_the_tool_and_brings_the_answer() -> None:
    """The whole loop, as a user has it."""

    @tool(side_effects="read")
    def read_file(path: str) -> str:
        """Read a text file and return its content."""
        assert path == "notes.txt"
        return "The new port goes live on Monday."

    with Session(MODEL, tools=[read_file]) as session:
        assert "Monday" in session.ask("What does notes.txt say about the new port?").text
