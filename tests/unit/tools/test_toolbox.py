"""A session's tools: registration, validation of calls, and the format of answers."""

import contextvars
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

from dragoman.adapter.errors import ToolSchemaError
from dragoman.canonical.blocks import ImageBlock, MediaSource, ResourceBlock, TextBlock, ToolUseBlock
from dragoman.canonical.tools import ToolDefinition
from dragoman.server_tools import Bash
from dragoman.session import Session, Tool, Toolbox, tool
from dragoman.testing.faults.server import FaultyServer, json_reply
from dragoman.tools import calls
from tests.unit.session.drivers import ANTHROPIC, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic


class Mood(Enum):
    GOOD = "good"


class Point(BaseModel):
    x: float


@dataclass
class Span:
    start: int


def prepare_call(function: Callable[..., Any], raw: str | None = None, **arguments: Any) -> calls.PreparedCall:
    """A validated call of a tool."""
    made = tool(function)
    return Toolbox([made]).prepare(ToolUseBlock(id="tu_1", name=made.name, input=arguments, raw_input=raw))


def answer_text(function: Callable[..., Any], **arguments: Any) -> str:
    """The text that the model reads."""
    result = calls.run(prepare_call(function, **arguments))
    (block,) = result.content
    assert isinstance(block, TextBlock)
    return ("!" if result.is_error else "") + block.text


def test_arguments_have_their_types() -> None:
    """Types that JSON lacks are made from JSON values; defaults stay the function's own."""
    seen: dict[str, Any] = {}

    def act(
        point: Point, span: Span, day: date, mood: Mood, ratio: float, many: list[Point],
        maybe: Point | None = None, shared: list[int] = [],  # noqa: B006
    ) -> None:  # fmt: skip
        """Act."""
        seen.update(locals())

    text = answer_text(
        act, point={"x": 1}, span={"start": 2}, day="2026-11-21", mood="good", ratio=3, many=[{"x": 4}], maybe=None
    )
    assert text == "null"
    del seen["seen"]
    assert seen == {
        "point": Point(x=1), "span": Span(2), "day": date(2026, 11, 21), "mood": Mood.GOOD, "ratio": 3.0,
        "many": [Point(x=4)], "maybe": None, "shared": [],
    }  # fmt: skip
    assert isinstance(seen["ratio"], float)


def positive(value: int) -> int:
    if value == 0:
        raise TypeError("zero is odd")
    if value < 0:
        raise ValueError("not positive")
    return value


def act(n: int, at: Annotated[int, AfterValidator(positive)] = 1, day: date | None = None) -> str:
    """Act."""
    return f"{n} {at}"


SCHEMA = "!The arguments do not match the schema: "


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"n": 1}, "1 1"),
        ({"n": 1, "at": 3}, "1 3"),
        ({"n": 1.0}, "1 1"),
        ({}, SCHEMA + 'input: "n" is a required property'),
        ({"n": "1"}, SCHEMA + 'n: "1" is not of type "integer"'),
        ({"n": None}, SCHEMA + 'n: null is not of type "integer"'),
        ({"n": 1, "more": 2}, SCHEMA + "input: Additional properties are not allowed ('more' was unexpected)"),
        ({"n": "1", "at": "2"}, SCHEMA + 'n: "1" is not of type "integer"; at: "2" is not of type "integer"'),
        ({"n": 1, "at": -1}, SCHEMA + "at: Value error, not positive"),
        ({"n": 1, "at": 0}, SCHEMA + "at: TypeError: zero is odd"),
        ({"n": 1, "day": "soon"}, SCHEMA + "day: Input should be a valid date or datetime, input is too short"),
    ],
)
def test_invalid_arguments_are_listed(arguments: dict[str, Any], text: str) -> None:
    """All problems, by path, before anything runs."""
    assert answer_text(act, **arguments) == text


def test_arguments_are_checked_against_the_schema_as_it_is() -> None:
    """The model saw a schema that was changed in place after the session began: it is the one that counts."""
    made = tool(act)
    box = Toolbox([made])
    call = ToolUseBlock(id="tu_1", name=made.name, input={"n": 1})
    assert not box.prepare(call).refusal
    made.definition.input_schema["properties"]["n"]["minimum"] = 2
    assert "n: 1 is less than the minimum of 2" in box.prepare(call).refusal
    del made.definition.input_schema["properties"]["n"]["minimum"]
    assert not box.prepare(call).refusal


def test_invalid_arguments_are_logged_by_number(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, without the values: they may be secrets."""
    with caplog.at_level(logging.WARNING, "dragoman.tools"):
        answer_text(act, n="sk-secret")
    assert caplog.messages == ["tool.input_invalid: act: 1 violations"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """The model can correct itself."""
    call = ToolUseBlock(id="tu_1", name="art", input={})
    assert Toolbox().prepare(call).refusal == "There is no tool 'art'. Known tools: none."
    assert Toolbox([act]).prepare(call).refusal == "There is no tool 'art'. Known tools: act."


def test_malformed_arguments_are_not_guessed() -> None:
    """Half a JSON runs nothing."""
    assert (
        prepare_call(act, '{"n": ').refusal == "The arguments were not a complete JSON object, so the tool was not run."
    )


IMAGE = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
RESOURCE = ResourceBlock(resource_request_id="r", uri="file:///a", resource_type="file", content="x")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", (TextBlock(text="text"),)),
        ("", (TextBlock(text=""),)),
        (TextBlock(text="block"), (TextBlock(text="block"),)),
        (IMAGE, (IMAGE,)),
        ([TextBlock(text="an image:"), IMAGE], (TextBlock(text="an image:"), IMAGE)),
        ((RESOURCE,), (RESOURCE,)),
        ([], (TextBlock(text="[]"),)),
        ([IMAGE, 1], None),
        (None, (TextBlock(text="null"),)),
        (1.5, (TextBlock(text="1.5"),)),
        ({"a": [1, None]}, (TextBlock(text='{"a":[1,null]}'),)),
        (Point(x=1), (TextBlock(text='{"x":1.0}'),)),
        (Span(1), (TextBlock(text='{"start":1}'),)),
        (date(2026, 11, 21), (TextBlock(text='"2026-11-21"'),)),
        (Mood.GOOD, (TextBlock(text='"good"'),)),
    ],
)
def test_answers_are_text_blocks_or_json(value: Any, content: tuple[Any, ...] | None) -> None:
    """Blocks as they are, everything else as JSON."""

    def give() -> Any:
        """Give."""
        return value

    result = calls.run(prepare_call(give))
    assert not result.is_error
    if content is not None:
        assert result.content == content
    else:
        assert len(result.content) == 1


@pytest.mark.parametrize("value", [object(), float("nan"), "\ud800", {"a": {1, object()}}])
def test_an_answer_that_is_no_json_is_an_error(value: Any) -> None:
    """The model reads it, and the session goes on."""

    def give() -> Any:
        """Give."""
        return value

    assert calls.run(prepare_call(give)).is_error


def test_an_exception_of_a_tool_is_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Cut to a bounded length; the log has the class and the traceback, once."""

    def fall(length: int) -> None:
        """Fall."""
        raise RuntimeError("x" * length)

    with caplog.at_level(logging.DEBUG, "dragoman.tools"):
        assert answer_text(fall, length=3) == "!RuntimeError: xxx"
    assert len(answer_text(fall, length=10_000)) == 2001
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("WARNING", True)] * 2


def handmade_tool(schema: dict[str, Any], name: str = "act") -> Tool:
    return Tool(ToolDefinition(name=name, input_schema=schema), lambda **arguments: arguments)


def test_a_tool_without_types_receives_json() -> None:
    """Arguments are what the model sent."""
    box = Toolbox([handmade_tool({"type": "object", "properties": {"when": {"type": "string", "format": "date"}}})])
    prepared = box.prepare(ToolUseBlock(id="tu_1", name="act", input={"when": "2026-11-21"}))
    assert prepared.arguments == {"when": "2026-11-21"}


@pytest.mark.parametrize(
    ("tools", "problems"),
    [
        ([handmade_tool({"type": "string"})], ["$.type: a tool's input must be an object"]),
        ([handmade_tool({"type": "object", "oneOf": []})], ["$: the keyword 'oneOf' is outside the subset"]),
        ([handmade_tool({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"not": {}}}}, "Act")],
         ["name: 'Act' is not snake_case of at most 64 characters",
          "$.properties.a: the keyword '$ref' is outside the subset",
          "$.properties.b: the keyword 'not' is outside the subset"]),
        ([handmade_tool({"type": "object", "properties": {"a": {"pattern": "("}}})],
         ['$.properties.a.pattern: "(" is not a "regex"']),
        ([handmade_tool({"type": "object", "properties": {"a": {"minimum": "x"}}})],
         ['$.properties.a.minimum: "x" is not of type "number"']),
        ([act, act], ["name: 'act' is registered already"]),
    ],
    ids=["type", "keyword", "several", "pattern", "minimum", "twice"],
)  # fmt: skip
def test_a_session_refuses_invalid_definitions_at_construction(tools: list[Any], problems: list[str]) -> None:
    """A session refuses invalid definitions at construction with all problems of a tool, before a single request."""
    with pytest.raises(ToolSchemaError) as caught:
        Session(ANTHROPIC, tools=tools)
    assert list(caught.value.problems) == problems


def test_a_schema_opens_no_connection() -> None:
    """A tool that the program runs for a provider's may have any schema, but none that lies elsewhere."""
    with FaultyServer(json_reply({"type": "string"})) as server:
        schema = {"type": "object", "properties": {"command": {"$ref": f"{server.url}/command.json"}}}
        with pytest.raises(ToolSchemaError, match="references to other documents are not followed"):
            Toolbox([Bash(function=lambda command: command, input_schema=schema)])
        assert server.requests == []


def test_several_calls_run_concurrently_in_their_callers_context() -> None:
    """Each waits for the others, so they must run at once; context variables are visible, and changes stay inside."""
    meeting = threading.Barrier(3, timeout=60)
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    def meet(n: int) -> str:
        """Meet the others."""
        meeting.wait()
        seen = user.get()
        user.set(f"{n}")
        return seen

    three = [Call(f"t{n}", "meet", {"n": n}) for n in range(3)]
    session = SyncDriver().session({"anthropic": Wire([handwritten_anthropic(*three), handwritten_anthropic("Ok.")])},
                                tools=[meet])  # fmt: skip
    user.set("somebody")
    session.ask("Go")
    answers = [block.text for m in session.messages for r in m.tool_results for block in r.content]  # type: ignore[union-attr]
    assert answers == ["somebody"] * 3
    assert user.get() == "somebody"


def test_a_tool_that_was_read_from_a_request_is_taken_as_it_is() -> None:
    """Another program declared it and runs it: its name and its schema follow the rules of that program's API."""
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "propertyNames": {"maxLength": 9},
    }
    raw = {"by": "anthropic", "residue": None}
    read = ToolDefinition(name="mcp-Server.Tool", input_schema=schema, provider_raw=raw)
    toolbox = Toolbox([read])
    assert toolbox.definitions == (read,)
    call = ToolUseBlock(id="tu_1", name="mcp-Server.Tool", input={"anything": 1})
    assert toolbox.prepare(call).refusal == ""
    with pytest.raises(ToolSchemaError, match="registered already"):
        Toolbox([read, read])


def test_a_field_as_the_default_is_metadata_and_a_default() -> None:
    """The function receives the default of the field and never the field."""

    @tool
    def find(
        city: str = Field(description="The city."),
        count: int = Field(3, ge=1, description="How many."),
        tags: list[str] = Field(default_factory=list),  # noqa: B008 - as in a model
        limit: int | None = Field(None, ge=1),
    ) -> str:
        """Find."""
        tags.append(city)
        return f"{city} {count} {tags} {limit}"

    assert find.definition.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The city."},
            "count": {"type": "integer", "default": 3, "minimum": 1, "description": "How many."},
            "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": ["integer", "null"], "minimum": 1},
        },
        "additionalProperties": False,
        "required": ["city"],
    }
    box = Toolbox([find])
    for _ in range(2):  # each call has a list of its own
        prepared = box.prepare(ToolUseBlock(id="tu_1", name="find", input={"city": "Bern"}))
        assert calls.run(prepared).content == (TextBlock(text="Bern 3 ['Bern'] None"),)
    assert "city" in box.prepare(ToolUseBlock(id="tu_1", name="find", input={})).refusal
    assert "count" in box.prepare(ToolUseBlock(id="tu_1", name="find", input={"city": "Bern", "count": 0})).refusal
    assert find("Bern") == "Bern 3 ['Bern'] None"
    assert find("Bern", 4, limit=2) == "Bern 4 ['Bern'] 2"
    with pytest.raises(TypeError, match=r"find\(\) is called without city"):
        find()


def test_a_field_with_what_no_argument_has_is_refused() -> None:
    """A model calls by the names of the parameters, and their defaults are made one by one."""

    def find(count: int = Field(3, alias="n"), last: int = Field(default_factory=lambda data: len(data))) -> None:
        """Find."""

    with pytest.raises(ToolSchemaError) as caught:
        tool(find)
    assert caught.value.problems == (
        "$.properties.count: an argument has the name of its parameter: remove the alias",
        "$.properties.last: the default_factory of an argument takes no other arguments",
    )
