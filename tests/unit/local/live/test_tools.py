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
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.local import AsyncLocalTransport
from dragoman.local.files import model_file
from dragoman.session import Session, tool
from tests.unit.local.live.conftest import FREE_ENDS, MODEL, Asker, check_call
from tests.unit.local.live.wording import reword

pytestmark = pytest.mark.live_local

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
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 99},
            "b": {"type": "integer", "minimum": 0, "maximum": 99},
            "unit": {"enum": ["cm", "m"]},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
TOOLS = (READ, ADD)


def check_schema(reply: Message) -> None:
    """Check that the reply is one call of one of its tools, by the tool's schema unless the limit cut it."""
    (call,) = reply.tool_uses
    check_call(reply, call.name)
    definition = next(tool for tool in TOOLS if tool.name == call.name)
    if call.raw_input is None:
        jsonschema_rs.validate(definition.input_schema, call.input)


@pytest.mark.parametrize("choice", ["required", pytest.param(NamedTool("add"), marks=pytest.mark.exhaustive)])
def test_a_forced_call_obeys_its_schema(ask: Asker, choice: object) -> None:
    """Whatever the prompt, exactly one call comes, and its arguments are valid."""
    reply = ask(reword("Hello there!"), TOOLS, tool_choice=choice, max_output_tokens=80)
    check_schema(reply)
    if isinstance(choice, NamedTool):
        check_call(reply, "add")


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("Read the file README.md and tell me what it says.", "README.md"),
        pytest.param(
            "Please look at data/config.json and say which port it uses.",
            "data/config.json",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
@pytest.mark.exhaustive
def test_the_model_calls_if_the_prompt_asks_for_it(ask: Asker, words: str, path: str) -> None:
    """Without a tool_choice, a message about a tool's subject is answered by a call.

    The tool is found by words, and the grammar offers one path: the only one of the message.
    """
    check_call(ask(reword(words), TOOLS), "read_file", {"path": path})


@pytest.mark.exhaustive
def test_the_model_calls_a_tool_with_nothing_to_copy(ask: Asker) -> None:
    """The numbers are the model's, within the schema."""
    reply = ask(reword("Add 4 and 5."), TOOLS)
    check_schema(reply)
    check_call(reply, "add")


@pytest.mark.parametrize(("words", "options"), [("Hello!", {}), ("Read README.md.", {"tool_choice": "none"})])
def test_the_model_answers_in_words_if_no_call_is_due(ask: Asker, words: str, options: dict[str, object]) -> None:
    """To small talk, and to everything if calls are forbidden."""
    reply = ask(reword(words), TOOLS, max_output_tokens=12, **options)
    assert reply.tool_uses == ()
    assert reply.stop_reason in FREE_ENDS


def test_a_streamed_call_is_the_whole_one(ask: Asker) -> None:
    """Its fragments join to its input, and sync, async and unstreamed call the same: the grammar offers one path."""
    context = ask.context()
    messages = [Message.user(reword("Read notes.txt."))]
    wire = ask.adapter.to_wire(messages, TOOLS, AdapterOptions(context=context, stream=True))
    with ask.transport.stream(ask.adapter, wire) as reply:
        events = list(ask.adapter.iter_stream(reply.chunks, context))

    async def collect_async() -> list[StreamEvent]:
        async with AsyncLocalTransport().stream(ask.adapter, wire) as reply:
            return [event async for event in ask.adapter.stream_response(reply.chunks, context)]

    check_call(ask(messages, TOOLS), "read_file", {"path": "notes.txt"})
    for stream_events in (events, asyncio.run(collect_async())):
        complete = stream_events[-1]
        assert isinstance(complete, MessageComplete)
        check_call(complete.message, "read_file", {"path": "notes.txt"})
        (call,) = complete.message.tool_uses
        fragments = [event.partial_json for event in stream_events if isinstance(event, ToolUseInputDelta)]
        assert len(fragments) > 1
        assert "".join(fragments) == call.raw_input or json.loads("".join(fragments)) == call.input
        ends = [event.final_input for event in stream_events if isinstance(event, ToolUseEnd)]
        assert ends == ([] if call.raw_input is not None else [call.input])


@pytest.mark.exhaustive
def test_a_truncated_call_runs_nothing(ask: Asker) -> None:
    """Its arguments stay text. Sixty tokens hold the call's head, and not the path, of which none holds two steps."""
    path = "/".join(["step"] * 80) + ".txt"
    (call,) = ask(f"Read the file {path}", TOOLS, max_output_tokens=60).tool_uses
    assert call.name == "read_file"
    assert call.input == {}
    assert call.raw_input is not None


@pytest.mark.exhaustive
def test_a_model_file_is_prompted_like_larger_models(ask: Asker) -> None:
    """Nothing is known about it, so it may choose, and only the grammar ensures the form of its calls."""
    by_path = Asker(f"local:{model_file('smollm2-135m')}")
    options = {"parallel_tool_calls": False, "max_output_tokens": 80}
    forced = by_path(reword("Read README.md."), TOOLS, tool_choice="required", **options)
    check_schema(forced)
    assert forced.metadata.model == str(by_path.adapter.model_id)
    either = by_path(reword("Is water wet? Answer in JSON."), TOOLS, output_schema={"enum": ["yes", "no"]}, **options)
    if either.tool_uses:
        check_schema(either)
    else:
        assert json.loads(either.text) in ("yes", "no")


def from_anthropic() -> list[Message]:
    """A call as Anthropic's wire delivers it, with its result: a handwritten reply in the documented form."""
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


@pytest.mark.exhaustive
def test_a_history_of_another_provider_is_continued(ask: Asker) -> None:
    """The model reads its calls and results, calls itself, and answers in words. The grammar offers one path."""
    history = [*from_anthropic(), Message.user(reword("Read notes.txt. When does the new port go live?"))]
    called = ask(history, TOOLS)
    check_call(called, "read_file", {"path": "notes.txt"})
    result = Message.tool(called.tool_uses[0].id, "The new port goes live on Monday.")
    answer = ask([*history, called, result], TOOLS, max_output_tokens=12)
    assert answer.tool_uses == ()
    assert answer.stop_reason in FREE_ENDS


@pytest.mark.exhaustive
def test_several_results_and_an_error_are_answered_in_words(ask: Asker) -> None:
    """Parallel calls of another model, one of which failed, are a history like any other."""
    calls = [ToolUseBlock(id=f"tu_{name}", name="read_file", input={"path": name}) for name in ("a.txt", "b.txt")]
    history = [
        Message.user(reword("Read a.txt and b.txt.")),
        Message.assistant(calls),
        Message.tool("tu_a.txt", "The cat is black and its name is Milo."),
        Message.tool("tu_b.txt", "no such file", is_error=True),
    ]
    reply = ask(history, TOOLS, max_output_tokens=12)
    assert reply.tool_uses == ()
    assert reply.stop_reason in FREE_ENDS


def test_a_session_runs_the_tool_and_returns_the_answer() -> None:
    """The whole loop, as a user has it. The grammar offers one path; a call that the limit cut runs nothing."""
    read: list[str] = []

    @tool(side_effects="read")
    def read_file(path: str) -> str:
        """Read a text file and return its content."""
        read.append(path)
        return "The new port goes live on Monday."

    with Session(MODEL, tools=[read_file]) as session:
        reply = session.ask(reword("What does notes.txt say about the new port?"), max_output_tokens=80)
        _, called, answered, answer = session.messages
    check_call(called, "read_file", {"path": "notes.txt"})
    assert read == [call.input["path"] for call in called.tool_uses if call.raw_input is None]
    assert [result.is_error for result in answered.tool_results] == [not read]
    assert reply.message == answer
    assert answer.tool_uses == ()
