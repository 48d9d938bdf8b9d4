"""Sessions in OpenTelemetry: which spans there are, their parents, and what they may and may not contain."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from dragoman.adapter.errors import ServerError
from dragoman.adapter.registry import adapter_class, providers
from dragoman.events import EventBus, LlmCallCompleted, LlmCallStarted, Telemetry, TurnStarted, conventions
from dragoman.policy import DataPolicy, Extensions, Pipeline, SecurityExtension
from dragoman.routing import Router
from dragoman.session import tool
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, AsyncDriver, Body, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

SECRET = "the word that nobody may read"
FINE = handwritten_anthropic(f"Yes: {SECRET}.", usage=(100, 20))
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])


@tool
def look(at: str) -> str:
    """Look at something."""
    if at == "nothing":
        raise ValueError(SECRET)
    return f"{at}: {SECRET}"


@dataclass
class TelemetryRecorder:
    """A program with OpenTelemetry's SDK, whose spans and metrics stay in memory."""

    bus: EventBus
    telemetry: Telemetry
    tracers: TracerProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        assert self.bus.flush(10)
        return self.exporter.get_finished_spans()

    def span(self, name: str, place: int = 0) -> ReadableSpan:
        return [span for span in self.spans if span.name == name][place]

    @property
    def tree(self) -> dict[str, list[str]]:
        """The names of spans by that of their parent, in the order in which they started."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        found: dict[str, list[str]] = {}
        for span in sorted(self.spans, key=lambda span: span.start_time or 0):
            found.setdefault(names.get(span.parent.span_id, "?") if span.parent else "", []).append(span.name)
        return found

    def points(self, metric: str) -> list[Any]:
        assert self.bus.flush(10)
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == metric
            for point in each.data.data_points
        ]


def new_recorder(**how: Any) -> TelemetryRecorder:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, **how)
    bus = EventBus(strict=True)
    bus.subscribe(telemetry)
    return TelemetryRecorder(bus, telemetry, tracers, exporter, reader)


@pytest.fixture
def seen() -> Iterator[TelemetryRecorder]:
    made = new_recorder()
    yield made
    made.bus.close()
    made.telemetry.close()


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@STREAMED
def test_a_turn_holds_its_requests_and_tools(driver: Driver, seen: TelemetryRecorder, streamed: bool) -> None:
    """One trace, and each span has its attributes under the names of the conventions."""
    provider = Wire([handwritten_anthropic(Call("t1", "look", {"at": SECRET})), FINE])
    session = driver.session({"anthropic": provider}, tools=[look], events=seen.bus, user_id="usr_1", team_id="team_1")
    (driver.stream if streamed else driver.ask)(session, f"Say {SECRET}.")
    chat = "chat claude-opus-5-5"
    assert seen.tree == {"": ["invoke_agent"], "invoke_agent": [chat, "execute_tool look", chat]}
    assert len({span.context.trace_id for span in seen.spans if span.context}) == 1
    attributes = facts(seen.span(chat, 1))
    assert {name: value for name, value in attributes.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-opus-5-5",
        "gen_ai.response.model": "claude-opus-5-5",
        "gen_ai.conversation.id": "sess_1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 0,
    }
    assert attributes["dragoman.cost.usd"] == format(session.messages[-1].usage.cost_usd, "f")
    assert facts(seen.span(chat))["gen_ai.response.finish_reasons"] == ("tool_call",)
    tool_span, turn = seen.span("execute_tool look"), seen.span("invoke_agent")
    assert facts(tool_span)["gen_ai.tool.name"] == "look"
    assert (facts(turn)["user.id"], facts(turn)["dragoman.team.id"]) == ("usr_1", "team_1")
    kinds = (SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    assert (turn.kind, seen.span(chat).kind, tool_span.kind) == kinds
    assert {span.status.status_code for span in seen.spans} == {StatusCode.UNSET}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_turn_is_a_child_of_the_programs_span(seen: TelemetryRecorder, asynchronous: bool) -> None:
    """Although handlers run in their own thread, and tasks have their own contexts."""
    tracer = seen.tracers.get_tracer("program")

    async def main(number: int) -> None:
        with tracer.start_as_current_span(f"task {number}"):
            session: Any = AsyncDriver().session({"anthropic": Wire([FINE])}, events=seen.bus)
            await session.ask("Hi")
            await session.close()

    async def both() -> None:
        await asyncio.gather(main(1), main(2))

    if asynchronous:
        asyncio.run(both())
        tree = {"": ["task 1", "task 2"], "task 1": ["invoke_agent"], "task 2": ["invoke_agent"]}
    else:
        with tracer.start_as_current_span("program"):
            SyncDriver().session({"anthropic": Wire([FINE])}, events=seen.bus).ask("Hi")
        tree = {"": ["program"], "program": ["invoke_agent"]}
    assert {name: below for name, below in seen.tree.items() if name != "invoke_agent"} == tree


@STREAMED
def test_content_is_left_out_by_default(driver: Driver, streamed: bool) -> None:
    """No content is in any attribute, status or event; with ``content`` all content is."""
    for content in (False, True):
        made = new_recorder(message_content=content, agent_name="guide")
        calls = [Call("t1", "look", {"at": SECRET}), Call("t2", "look", {"at": "nothing"})]
        provider = Wire([handwritten_anthropic(*calls), FINE])
        session = driver.session({"anthropic": provider}, tools=[look], events=made.bus, system=SECRET)
        (driver.stream if streamed else driver.ask)(session, SECRET)
        everything = "".join(span.to_json() for span in made.spans)
        assert (SECRET in everything) is content
        if content:
            first, last = made.span("chat claude-opus-5-5"), made.span("chat claude-opus-5-5", 1)
            assert json.loads(facts(first)["gen_ai.input.messages"]) == [
                {"role": "system", "parts": [{"type": "text", "content": SECRET}]},
                {"role": "user", "parts": [{"type": "text", "content": SECRET}]},
            ]
            called, *_ = json.loads(facts(first)["gen_ai.output.messages"])
            call = session.messages[2].tool_uses[0]
            call_part = {"type": "tool_call", "id": call.id, "name": "look", "arguments": {"at": SECRET}}
            assert (called["parts"][0], called["finish_reason"]) == (call_part, "tool_call")
            answered = json.loads(facts(last)["gen_ai.input.messages"])[3]
            result_part = {"type": "tool_call_response", "id": call.id, "response": f"{SECRET}: {SECRET}"}
            assert answered == {"role": "tool", "parts": [result_part]}
            ran = facts(made.span("execute_tool look"))
            assert json.loads(ran["gen_ai.tool.call.arguments"]) == {"at": SECRET}
            assert json.loads(ran["gen_ai.tool.call.result"]) == f"{SECRET}: {SECRET}"
        made.bus.close()


@STREAMED
def test_a_fallback_has_a_span_for_each_model(driver: Driver, seen: TelemetryRecorder, streamed: bool) -> None:
    """Each failed attempt has its error, also in its status; the turn itself succeeded."""
    error = {"type": "error", "error": {"type": "api_error", "message": SECRET}}
    wires = {
        "anthropic": Wire([httpx.Response(500, json=error) for _ in range(3)]),
        "ollama": Wire([handwritten_ollama("Here.")]),
    }
    session = driver.session(wires, router=Router(global_default=OLLAMA, clock=lambda: NOW), events=seen.bus)
    (driver.stream if streamed else driver.ask)(session, "Hi")
    assert seen.tree["invoke_agent"] == [*["chat claude-opus-5-5"] * 3, "chat qwen3"]
    attempts = [span for span in seen.spans if span.name == "chat claude-opus-5-5"]
    turn = seen.span("invoke_agent")
    for number, failed in enumerate(attempts):
        assert failed.status.status_code is StatusCode.ERROR
        assert (facts(failed)["error.type"], facts(failed)["dragoman.retry_count"]) == ("server_error", number)
        assert SECRET not in failed.to_json()
    assert turn.status.status_code is StatusCode.UNSET
    chosen = [dict(event.attributes or {})["dragoman.route.model"] for event in turn.events]
    assert chosen == [ANTHROPIC, OLLAMA]


def test_a_retried_stream_has_two_spans(driver: Driver, seen: TelemetryRecorder) -> None:
    """A retry is a separate request."""
    session = driver.session({"anthropic": Wire([Body(FINE.frames[:1]), FINE])}, events=seen.bus)
    driver.stream(session, "Hi")
    assert seen.tree["invoke_agent"] == ["chat claude-opus-5-5"] * 2
    assert [facts(span).get("error.type") for span in seen.spans] == ["network", None, None]


@STREAMED
def test_a_failed_turn_has_an_error_span(driver: Driver, seen: TelemetryRecorder, streamed: bool) -> None:
    """A failed turn has an error span with the class of the error that ended it."""
    session = driver.session({"anthropic": Wire([httpx.Response(500) for _ in range(3)])}, events=seen.bus)
    with pytest.raises(ServerError):
        (driver.stream if streamed else driver.ask)(session, "Hi")
    turn = seen.span("invoke_agent")
    assert (turn.status.status_code, facts(turn)["error.type"]) == (StatusCode.ERROR, "server_error")


def test_an_abandoned_turn_has_that_status(driver: Driver, seen: TelemetryRecorder) -> None:
    """Its request has it too; a tool that had failed before has its own status."""
    session = driver.session({"anthropic": Wire([Body(FINE.frames)])}, events=seen.bus)
    driver.stream(session, "Hi", until="text_delta")
    assert [facts(span)["error.type"] for span in seen.spans] == ["cancelled", "cancelled"]
    broken = Wire([handwritten_anthropic(Call("t1", "look", {"at": "nothing"})), FINE])
    driver.ask(driver.session({"anthropic": broken}, tools=[look], events=seen.bus), "Hi")
    assert facts(seen.span("execute_tool look"))["error.type"] == "execution_error"


def test_metrics_have_time_and_tokens(driver: Driver, seen: TelemetryRecorder) -> None:
    """Metrics have time and tokens by model and provider; the prompt's tokens include cached ones."""
    provider = Wire([FINE, *(httpx.Response(500) for _ in range(3))])
    session = driver.session({"anthropic": provider}, events=seen.bus)
    driver.ask(session, "Hi")
    with pytest.raises(ServerError):
        driver.ask(session, "Hi")
    tokens = {point.attributes["gen_ai.token.type"]: point for point in seen.points(conventions.TOKENS)}
    assert {kind: (point.sum, point.count) for kind, point in tokens.items()} == {"input": (100, 1), "output": (20, 1)}
    assert dict(tokens["input"].attributes) == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.token.type": "input",
        "gen_ai.request.model": "claude-opus-5-5", "gen_ai.response.model": "claude-opus-5-5",
    }  # fmt: skip
    assert tokens["input"].explicit_bounds == tuple(conventions.TOKEN_BUCKETS)
    spans = seen.points(conventions.DURATION)
    assert sorted(str(point.attributes.get("error.type")) for point in spans) == ["None", "server_error"]
    assert {tuple(point.explicit_bounds) for point in spans} == {tuple(conventions.DURATION_BUCKETS)}


def test_concurrent_sessions_keep_their_spans_apart(seen: TelemetryRecorder) -> None:
    """Eight threads, each below a span of its own: every request is in its own trace, below its own turn."""
    tracer, driver = seen.tracers.get_tracer("program"), SyncDriver()
    ready = threading.Barrier(8)

    def ask_in_thread(number: int) -> None:
        replies = [handwritten_anthropic(Call("t1", "look", {"at": "it"})), FINE] * 3
        wires = {"anthropic": Wire(replies)}
        session = driver.session(wires, tools=[look], events=seen.bus, session_id=f"sess_{number}")
        ready.wait()
        for _ in range(3):
            with tracer.start_as_current_span(f"program {number}"):
                session.ask("Look.")

    threads = [threading.Thread(target=ask_in_thread, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_id = {span.context.span_id: span for span in seen.spans if span.context}
    roots = [span for span in seen.spans if span.parent is None]
    assert (len(by_id), len(roots)) == (8 * 3 * 5, 24)
    for span in seen.spans:
        if span.parent is not None:
            parent = by_id[span.parent.span_id]
            whose = f"sess_{parent.name.partition(' ')[2]}" if parent.parent is None else facts(parent)[
                conventions.CONVERSATION
            ]  # fmt: skip
            assert facts(span)[conventions.CONVERSATION] == whose
    assert not seen.telemetry._turns
    assert not seen.telemetry._attachments


def test_missed_events_leave_no_open_span(seen: TelemetryRecorder) -> None:
    """A request without a turn and a turn without an end have spans, which end when telemetry is closed."""
    started = LlmCallStarted(model=ANTHROPIC, provider="anthropic", request_id="r1")
    seen.bus.emit(started, session_id="s", turn_id="t1")
    seen.bus.emit(LlmCallCompleted(model=ANTHROPIC, provider="anthropic"), session_id="s", turn_id="t1")
    seen.bus.emit(LlmCallCompleted(model=ANTHROPIC, provider="anthropic"), session_id="s", turn_id="t1")
    seen.bus.emit(TurnStarted.of(None), session_id="s", turn_id="t2")
    seen.bus.emit(started, session_id="s", turn_id="t2")
    seen.bus.emit(started, session_id="s", turn_id="t2")
    assert [facts(span).get("error.type") for span in seen.spans] == [None, "abandoned"]
    seen.telemetry.close()
    assert [facts(span).get("error.type") for span in seen.spans] == [None, *["abandoned"] * 3]
    assert len(seen.points(conventions.TOKENS)) == 0


def test_span_names_are_those_of_the_conventions() -> None:
    """Span names are those of the conventions, as OpenTelemetry's own package has them."""
    known = {getattr(gen_ai_attributes, name) for name in dir(gen_ai_attributes) if name.startswith("GEN_AI_")}
    reply = LlmCallCompleted(
        model=ANTHROPIC, provider="anthropic", input_tokens=1, output_tokens=1, cached_input_tokens=1,
        cache_creation_input_tokens=1, stop_reason="end_turn",
    )  # fmt: skip
    ours = {value for name, value in vars(conventions).items() if name.isupper() and isinstance(value, str)}
    ours |= {*conventions.reply_attributes(reply), *conventions.request_attributes("anthropic", ANTHROPIC)}
    metrics = {gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION, gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE}
    assert {name for name in ours if name.startswith("gen_ai.")} <= known | metrics
    known_providers = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    declared = {name: adapter_class(name).telemetry_name for name in providers()}
    assert {declared[name] for name in declared if declared[name] != name} <= known_providers


@pytest.mark.parametrize(
    "rule", [DataPolicy(denied_actions=["log_raw"]), DataPolicy(allowed_actions=["read", "export", "write"])]
)
def test_data_that_may_not_be_logged_is_in_no_span(driver: Driver, rule: DataPolicy) -> None:
    """Nor is what follows it, in this turn and in a session that goes on with the history; the turn before it is."""
    recorder = new_recorder(message_content=True)
    calling = handwritten_anthropic(Call("toolu_1", "look", {"at": "a"}))
    wire = Wire([handwritten_anthropic("Fine."), calling, FINE, FINE])
    settings: dict[str, Any] = {
        "policy": Pipeline(),
        "extensions": Extensions(security=SecurityExtension(data={"look": rule})),
        "events": recorder.bus,
        "tools": [look],
    }
    session = driver.session({"anthropic": wire}, **settings)
    driver.ask(session, "An open word.")
    driver.ask(session, "Look.")
    later = driver.session({"anthropic": Wire([FINE])}, messages=session.messages, **settings)
    driver.ask(later, "Again.")
    spans = [span.to_json() for span in recorder.spans]
    assert any("An open word." in span for span in spans)
    assert not any(SECRET in span for span in spans)
