"""Typed answers: requested, read, asked again, and streamed."""

import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field, field_validator

from dragoman.adapter.contract import AdapterOptions
from dragoman.canonical.events import OutputComplete, OutputPartial, OutputRetry
from dragoman.canonical.message import Role
from dragoman.errors import OutputError, OutputTypeError, PendingCallsError, RateLimitError, RequestError
from dragoman.events import EventBus
from dragoman.policy import Pipeline
from dragoman.session import tool
from dragoman.store import Store
from tests.unit.session.drivers import OLLAMA, Driver, Wire, texts, types
from tests.unit.session.handwritten_replies import Call, Reply, handwritten_anthropic, handwritten_ollama
from tests.unit.session.middleware.policy_plugins import RecordingPlugin

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class City(BaseModel):
    name: str
    population: int = Field(gt=0)


@dataclass
class River:
    name: str
    length_km: float


class Point(NamedTuple):
    x: int
    y: int = 0


def ask(driver: Driver, *answers: str | Reply, **options: Any) -> tuple[Any, Wire, Any]:
    """Return the reply, the wire and the session of one question."""
    wire = Wire([handwritten_anthropic(each) if isinstance(each, str) else each for each in answers])
    session = driver.session({"anthropic": wire})
    return driver.ask(session, "Which?", **options), wire, session


def stream(driver: Driver, *answers: str, chunk: int = 1, **options: Any) -> tuple[list[Any], Any]:
    """Return the events of one question whose answers arrive in small pieces."""
    wire = Wire([in_pieces(each, chunk) for each in answers])
    session = driver.session({"ollama": wire}, OLLAMA)
    return driver.stream(session, "Which?", **options), session


def in_pieces(text: str, size: int) -> Reply:
    """A reply of Ollama with so many characters a frame."""
    whole = handwritten_ollama(text)
    first, *_, last = map(json.loads, whole.frames)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    frames = [{**first, "message": {**first["message"], "content": piece}} for piece in pieces]
    lines = tuple(json.dumps(each).encode() + b"\n" for each in (*frames, last))
    return Reply(whole.body, lines, whole.content_type)


@pytest.mark.parametrize(
    ("output", "answer", "value"),
    [
        (City, '{"name": "Bern", "population": 137000}', City(name="Bern", population=137000)),
        (River, '{"name": "Aare", "length_km": 288}', River("Aare", 288.0)),
        (Point, '{"x": 1, "y": 2}', Point(1, 2)),
        (list[Point], '{"answer": [{"x": 1}]}', [Point(1)]),
        (City | River, '{"answer": {"name": "Aare", "length_km": 288}}', River("Aare", 288.0)),
        (Literal["yes", "no"], '{"answer": "no"}', "no"),
        (bool, '{"answer": true}', True),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (str, "no JSON at all", "no JSON at all"),
    ],
)
def test_the_output_has_the_requested_type(driver: Driver, output: Any, answer: str, value: Any) -> None:
    """For types that are objects and for types that are not."""
    reply, wire, _ = ask(driver, answer, output=output)
    assert reply.output == value
    assert type(reply.output) is type(value)
    assert reply.text == answer
    assert len(wire.requests) == 1


def test_the_model_receives_the_schema_within_its_subset(driver: Driver) -> None:
    """A bound that the wire does not support is a description there, and is checked here."""
    reply, wire, _ = ask(driver, '{"name": "Bern", "population": 1}', output=City)
    schema = wire.requests[0]["output_config"]["format"]["schema"]
    assert schema["properties"]["population"] == {"type": "integer", "description": "exclusiveMinimum: 0"}
    assert schema["required"] == ["name", "population"]
    assert any("exclusiveMinimum" in loss.reason for loss in reply.losses)
    with pytest.raises(OutputError, match=r"\$\.population: Input should be greater than 0"):
        ask(driver, '{"name": "Bern", "population": -1}', output=City, output_retries=0)


def test_an_invalid_answer_is_asked_again_with_its_problems(driver: Driver) -> None:
    """Both answers stay in the history, and both are paid."""
    reply, wire, session = ask(
        driver, '{"name": "Bern", "population": "many"}', '{"name": "B", "population": 2}', output=City
    )
    assert reply.output == City(name="B", population=2)
    assert [message.role for message in reply.messages] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    correction = wire.requests[1]["messages"][2]["content"]
    assert "$.population: Input should be a valid integer" in json.dumps(correction)
    assert wire.requests[1]["output_config"] == wire.requests[0]["output_config"]
    assert reply.usage.output_tokens == session.usage.output_tokens == 10


def test_after_the_last_retry_the_error_has_everything(driver: Driver) -> None:
    """The text, each problem with its path, and the reply with its cost."""
    wrong = '{"answer": [{"x": "a", "y": "b"}]}'
    wire = Wire([handwritten_anthropic(wrong)] * 3)
    session = driver.session({"anthropic": wire})
    with pytest.raises(OutputError) as caught:
        driver.ask(session, "Which?", output=list[Point], output_retries=2)
    assert [each.path for each in caught.value.problems] == [("answer", 0, "x"), ("answer", 0, "y")]
    assert caught.value.text == wrong
    assert caught.value.reply.usage.output_tokens == 15
    assert len(session.messages) == 6
    with pytest.raises(RequestError, match="without an answer of the requested type"):
        _ = caught.value.reply.output


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('Here it is: {"name": "Bern", "population": 1}', "$: the answer is not one JSON value"),
        ('{"name": "Bern", "population": 1} I hope this helps.', "$: the answer is not one JSON value"),
        ('```json\n{"name": "Bern", "population": 1}\n```', "$: the answer is not one JSON value"),
        ('{"name": "Bern", "population": NaN}', "$: the answer is not one JSON value"),
        (" ", "$: the answer is empty"),
        ("[]", "$: Input should be an object"),
        ('{"population": 1}', "$.name: Field required"),
    ],
)
def test_an_answer_that_is_no_such_json_is_invalid(driver: Driver, answer: str, problem: str) -> None:
    """Nothing is guessed from the text."""
    with pytest.raises(OutputError) as caught:
        ask(driver, answer, output=City, output_retries=0)
    assert str(caught.value.problems[0]).startswith(problem)


def test_a_refusal_is_not_asked_again(driver: Driver) -> None:
    """The error says that the model refused."""
    refusal = handwritten_anthropic("I cannot help with that.", stop="refusal")
    with pytest.raises(OutputError, match="the model refused to answer") as caught:
        ask(driver, refusal, output=City)
    assert caught.value.text == "I cannot help with that."


def test_an_answer_that_was_cut_is_asked_again_in_fewer_words(driver: Driver) -> None:
    """The model learns why its answer is not valid."""
    cut = handwritten_anthropic('{"name": "Be', stop="max_tokens")
    _, wire, _ = ask(driver, cut, '{"name": "B", "population": 2}', output=City)
    assert "cut at the limit of output tokens" in json.dumps(wire.requests[1]["messages"][-1])


def test_the_program_s_own_validators_count(driver: Driver) -> None:
    """Whatever they raise is a problem, and never ends the turn by itself."""

    class Strange(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            if name == "assert":
                raise ValueError("not this name")
            raise KeyError(name)

    for name, problem in (("assert", "$.name: Value error, not this name"), ("other", "$: KeyError: 'other'")):
        with pytest.raises(OutputError) as caught:
            ask(driver, json.dumps({"name": name}), output=Strange, output_retries=0)
        assert list(map(str, caught.value.problems)) == [problem]


class NoSchema:
    """A class that pydantic does not know."""


@pytest.mark.parametrize("output", [NoSchema, list[NoSchema], 7, "Nowhere", Annotated[int, Field(pattern="(")]])
def test_a_type_without_a_schema_is_refused_before_anything_is_sent(driver: Driver, output: Any) -> None:
    wire = Wire([])
    session = driver.session({"anthropic": wire})
    for run in (driver.ask, driver.stream):
        with pytest.raises(OutputTypeError):
            run(session, "Which?", output=output)
    assert wire.requests == []
    assert session.messages == ()


def test_tools_run_before_the_answer(driver: Driver) -> None:
    """Only the last reply is the answer, and text before a call is none."""

    @tool
    def look() -> str:
        """Look up."""
        return "137000"

    wire = Wire(
        [
            handwritten_anthropic("I look it up.", Call("toolu_1", "look")),
            handwritten_anthropic('{"name": "Bern", "population": "?"}'),
            handwritten_anthropic('{"name": "Bern", "population": 137000}'),
        ]
    )
    session = driver.session({"anthropic": wire}, tools=[look])
    assert driver.ask(session, "Which?", output=City).output == City(name="Bern", population=137000)
    assert len(session.messages) == 6


def test_a_failed_retry_keeps_what_was_paid(driver: Driver) -> None:
    """The invalid answer stays in the history; the error is that of the provider."""
    limited = RateLimitError("slow down")
    wire = Wire([handwritten_anthropic("no JSON"), *[limited] * 3])
    session = driver.session({"anthropic": wire})
    with pytest.raises(RateLimitError):
        driver.ask(session, "Which?", output=City)
    assert texts(session) == [("user", "Which?"), ("assistant", "no JSON")]


def test_calls_that_wait_are_no_answer(driver: Driver) -> None:
    """Reading the output says so."""
    refused = handwritten_anthropic("Hm.", Call("toolu_1", "look"), stop="refusal")
    reply, _, _ = ask(driver, refused)
    with pytest.raises(PendingCallsError, match="look"):
        _ = reply.output
    assert reply.text == "Hm."


def test_a_schema_as_json_is_checked(driver: Driver) -> None:
    """The answer stays a text; the rest is as for types."""
    reply, wire, _ = ask(driver, '{"name": 1}', '{"name": "Bern"}', output_schema=SCHEMA)
    assert reply.output == reply.text == '{"name": "Bern"}'
    assert '$.name: the value is not of type \\"string\\"' in json.dumps(wire.requests[1]["messages"][-1])
    with pytest.raises(OutputError, match=r"\$: \"name\" is a required property"):
        ask(driver, "{}", output_schema=SCHEMA, output_retries=0)


@pytest.mark.parametrize(
    "schema", [{"type": "nothing"}, {"$ref": "http://127.0.0.1:9/schema"}, {"const": object()}, {"const": float("nan")}]
)
def test_an_invalid_schema_is_refused_before_anything_is_sent(driver: Driver, schema: Any) -> None:
    """No reference to another document is followed."""
    wire = Wire([])
    with pytest.raises(OutputTypeError, match="output_schema: "):
        driver.ask(driver.session({"anthropic": wire}), "Which?", output_schema=schema)
    assert wire.requests == []


def test_a_session_may_always_have_a_schema(driver: Driver) -> None:
    """The type of a turn takes its place."""
    wire = Wire([handwritten_anthropic('{"name": "Bern"}'), handwritten_anthropic('{"answer": 7}')])
    session = driver.session({"anthropic": wire}, options=AdapterOptions(output_schema=SCHEMA))
    assert driver.ask(session, "Which?").output == '{"name": "Bern"}'
    number: Any = driver.ask(session, "How many?", output=int).output
    assert number == 7


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"output": City, "output_schema": SCHEMA}, "give one"),
        ({"output": City, "output_retries": -1}, "a whole number, at least 0"),
        ({"output": City, "output_retries": True}, "a whole number, at least 0"),
    ],
)
def test_contradictions_are_refused(driver: Driver, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        driver.ask(driver.session({"anthropic": Wire([])}), "Which?", **options)


def test_a_stream_shows_what_is_valid_so_far(driver: Driver) -> None:
    """Neither a string nor a number counts before it has ended, and an item counts when it is complete."""
    events, _ = stream(driver, '{"answer": [{"x": 12, "y": 34}, {"x": 5, "y": 6}]}', output=list[Point])
    partial = [event.value for event in events if isinstance(event, OutputPartial)]
    assert partial == [
        [],
        [Point(12)],
        [Point(12, 34)],
        [Point(12, 34), Point(5)],
        [Point(12, 34), Point(5, 6)],
    ]
    assert events[-1] == OutputComplete([Point(12, 34), Point(5, 6)])


@pytest.mark.parametrize(("strings", "last"), [(False, []), (True, ["B", "Be", "Ber"])])
def test_half_strings_are_shown_if_they_are_asked_for(driver: Driver, strings: bool, last: list[str]) -> None:
    """Otherwise a string arrives as a whole."""

    class Name(BaseModel):
        name: str

    events, _ = stream(driver, '{"name": "Bern"}', output=Name, partial_strings=strings)
    names = [event.value.name for event in events if isinstance(event, OutputPartial)]
    assert [name for name in names if name] == [*last, "Bern"]


def test_a_stream_for_any_text_ends_with_the_text(driver: Driver) -> None:
    """The text deltas are its parts."""
    events, session = stream(driver, "It rains.", chunk=4, output=str)
    assert [event.value for event in events if isinstance(event, OutputComplete)] == ["It rains."]
    assert events[-1] == OutputComplete("It rains.")
    assert not any(isinstance(event, OutputPartial) for event in events)
    assert session.messages[-1].text == "It rains."
    assert not any(isinstance(event, OutputComplete) for event in stream(driver, "It rains.")[0])


def test_a_text_is_complete_when_no_tool_is_called_any_more(driver: Driver) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "Rain."

    wire = Wire([handwritten_anthropic("I look.", Call("toolu_1", "look")), handwritten_anthropic("It rains.")])
    session = driver.session({"anthropic": wire}, tools=[look])
    events = driver.stream(session, "Which?", output=str)
    assert [event.value for event in events if isinstance(event, OutputComplete)] == ["It rains."]


def test_a_retry_in_a_stream_says_that_what_was_shown_does_not_count(driver: Driver) -> None:
    """The events of the second answer follow."""
    events, session = stream(
        driver, '{"name": "Bern", "population": 0}', '{"name": "Bern", "population": 7}', chunk=99, output=City
    )
    kinds = [kind for kind in types(events) if kind.startswith("output") or kind == "message_complete"]
    assert kinds == ["message_complete", "output_retry", "output_partial", "message_complete", "output_complete"]
    (retry,) = [event for event in events if isinstance(event, OutputRetry)]
    assert [each.path for each in retry.problems] == [("population",)]
    assert len(session.messages) == 4


def test_a_stream_ends_with_the_error_of_the_last_answer(driver: Driver) -> None:
    """Its message was delivered, and stays."""
    seen: list[Any] = []
    with pytest.raises(OutputError):
        driver.stream(
            driver.session({"ollama": Wire([in_pieces("no", 1)])}, OLLAMA),
            "?",
            seen=seen,
            output=City,
            output_retries=0,
        )
    assert seen[-1].type == "message_complete"


def test_a_long_answer_is_read_in_linear_time(driver: Driver) -> None:
    """A long text is parsed again only when it has grown by a share of its length."""
    values = list(range(3000))
    events, _ = stream(driver, json.dumps({"answer": values}), chunk=4, output=list[int])
    partial = [event.value for event in events if isinstance(event, OutputPartial)]
    assert events[-1] == OutputComplete(values)
    assert all(values[: len(each)] == each for each in partial)
    assert 50 < len(partial) < 1000


def test_a_request_to_answer_again_is_part_of_the_turn(driver: Driver, tmp_path: Path) -> None:
    """A policy judges it, a store keeps it, and the events count one turn with two calls."""
    plugin, store, bus, kinds = RecordingPlugin(), Store(f"sqlite:///{tmp_path}/chats.db"), EventBus(), []
    bus.subscribe(lambda event: kinds.append(event.type))
    wire = Wire([handwritten_anthropic("no JSON"), handwritten_anthropic('{"name": "B", "population": 2}')])
    session = driver.session({"anthropic": wire}, policy=Pipeline([plugin]), store=store, events=bus)
    driver.ask(session, "Which?", output=City)
    bus.close()
    judged = [text.partition("\n")[0] for hook, role, text in plugin.seen if role == "user" and hook == "cmf.llm_input"]
    assert judged == ["Which?", "Your answer is not valid:"]
    assert [message.text for message in store.load("sess_1").messages] == [each.text for each in session.messages]
    assert [kinds.count(f"turn.{end}") for end in ("started", "completed")] == [1, 1]
    assert kinds.count("llm.call_completed") == 2


def test_many_problems_are_cut_for_the_model_and_kept_for_the_program(driver: Driver) -> None:
    """The error can be sent to another process."""
    wire = Wire([handwritten_anthropic(json.dumps({"answer": ["x"] * 100}))] * 2)
    with pytest.raises(OutputError) as caught:
        driver.ask(driver.session({"anthropic": wire}), "Which?", output=list[int])
    assert wire.requests[1]["messages"][-1]["content"][0]["text"].count("\n- ") == 20
    assert len(caught.value.problems) == 100
    assert str(caught.value).endswith("; and 90 more")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.problems, copied.text, str(copied)) == (caught.value.problems, caught.value.text, str(caught.value))
