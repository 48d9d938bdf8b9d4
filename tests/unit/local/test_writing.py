"""From a request to the runtime and back, whatever the runtime writes: options, ends, cuts and silence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, ContextOverflowError, InvalidRequestError, ServerError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message, StopReason
from dragoman.local import LocalTransport
from dragoman.local.model import get_model
from dragoman.session import Session, tool
from tests.unit.local.scripted_runtime import ScriptedRuntime, Written

MODEL = "local:smollm2-135m"
ADAPTER = get_adapter(MODEL)

Script = Callable[..., ScriptedRuntime]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """Makes a runtime that writes these texts, one after the other."""

    def install(*written: str | Written) -> ScriptedRuntime:
        runtime = ScriptedRuntime(*written)
        runtime.install(monkeypatch, tmp_path)
        return runtime

    return install


def ask(text: str = "Hi", **options: Any) -> Message:
    context = RequestContext.for_model(MODEL)
    wire = ADAPTER.to_wire([Message.user(text)], [], AdapterOptions(context=context, **options))
    return ADAPTER.from_wire_response(LocalTransport().send(ADAPTER, wire), context)


def test_a_model_is_loaded_with_one_precision(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model loads with the same precision on every CPU. An invalid number of threads is an error."""
    runtime = script("Hello.", "Hello.")
    ask()
    ask()
    assert runtime.properties == [{"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}]
    script("Hello.")
    monkeypatch.setenv("DRAGOMAN_LOCAL_THREADS", "many")
    with pytest.raises(ConfigurationError, match="DRAGOMAN_LOCAL_THREADS is 'many'"):
        ask()


def test_a_temperature_turns_sampling_on(script: Script) -> None:
    """A temperature of 0 does not; a seed is passed on, and each request without one gets another."""
    runtime = script(*["Hello."] * 5)
    for options in ({}, {"temperature": 0.0}, {"temperature": 1.5, "seed": 7, "top_k": 3}, *[{"top_p": 0.5}] * 2):
        ask(**options)
    plain, cold, warm, *drawn = runtime.configs
    assert [config.do_sample for config in runtime.configs] == [False, False, True, True, True]
    assert (warm.temperature, warm.top_k, warm.rng_seed) == (1.5, 3, 7)
    assert not hasattr(plain, "rng_seed")
    assert not hasattr(cold, "temperature")
    assert drawn[0].rng_seed != drawn[1].rng_seed


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_an_invalid_seed_is_refused(script: Script, seed: int) -> None:
    """Before the model writes anything, with an error that says which seeds are valid."""
    runtime = script()
    with pytest.raises(InvalidRequestError, match="a seed must be a whole number of at least 0"):
        ask(temperature=1.0, seed=seed)
    assert runtime.configs == []


def test_the_stop_reason_is_reported(script: Script) -> None:
    """The model's own end, the limit, or a stop sequence, which is not part of the reply."""
    script("Hello there.", ("Hello the", True), "Hello there.", ("Hello there.", True))
    ended, cut, stopped = ask(), ask(max_output_tokens=3), ask(stop_sequences=("there",))
    both = ask(stop_sequences=("there",), max_output_tokens=4)
    assert (ended.text, ended.stop_reason) == ("Hello there.", StopReason.END_TURN)
    assert (cut.text, cut.stop_reason) == ("Hello the", StopReason.MAX_TOKENS)
    assert (stopped.text, stopped.stop_reason) == ("Hello ", StopReason.STOP_SEQUENCE)
    assert (both.text, both.stop_reason) == ("Hello ", StopReason.STOP_SEQUENCE)


def test_a_prompt_over_the_window_is_refused_before_the_model_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With its true size, which the tokenizer hides, and although another request is being answered."""
    runtime = ScriptedRuntime("Hello.", window=100)
    runtime.install(monkeypatch, tmp_path)
    assert ask("word " * 98).text == "Hello."
    with (
        get_model("smollm2-135m", print)._lock,
        pytest.raises(ContextOverflowError, match="the prompt has 250 tokens, and the model's window has room for 99"),
    ):
        ask("word " * 249)
    assert [config.max_new_tokens for config in runtime.configs] == [1]


def test_an_empty_reply_is_a_reply(script: Script) -> None:
    """Whole and streamed, and the conversation goes on."""
    runtime = script("", "", "Hello.")
    with Session(MODEL) as session:
        assert session.ask("Say nothing.").text == ""
        assert [event.type for event in session.stream("Again.")] == [
            "message_start",
            "usage_update",
            "message_complete",
        ]
        assert session.ask("Say hello.").text == "Hello."
        assert len(session.messages) == 6
    assert runtime.prompts[-1].endswith("user: Say hello.")


@tool(side_effects="none")
def add(a: float, b: float) -> str:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return f"{a + b:g}"


def test_a_call_is_run_and_answered_in_words(script: Script) -> None:
    """Its text becomes a call, and its result ends the next prompt."""
    runtime = script('<tool_call>{"name": "add", "arguments": {"a": 4, "b": 5}}</tool_call>', "It is 9.")
    with Session(MODEL, tools=[add]) as session:
        assert session.ask("Add 4 and 5.").text == "It is 9."
        (call,) = session.messages[1].tool_uses
        assert call.input == {"a": 4, "b": 5}
    assert runtime.prompts[-1].endswith("<tool_response>\n9\n</tool_response>")
    assert [hasattr(config, "structured_output_config") for config in runtime.configs] == [True, False]


def test_a_truncated_call_runs_nothing_and_ends_the_turn(script: Script) -> None:
    """A grammar allows endless numbers and white space, so a small model may reach its limit inside a call."""
    script(('<tool_call>{"name": "add", "arguments": {"a": 4444', True), "It failed.")
    with Session(MODEL, tools=[add]) as session:
        assert session.ask("Add 4 and 5.").text == "It failed."
        _, called, answered, _ = session.messages
    (call,), (result,) = called.tool_uses, answered.tool_results
    assert called.stop_reason is StopReason.MAX_TOKENS
    assert (call.input, call.raw_input) == ({}, '{"a": 4444')
    assert result.is_error


def test_a_reply_that_fails_or_is_left_has_its_stop_reason(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial message says why it ends: the error, or the caller who left."""
    runtime = script("Hello there, my friend.", "Hello there, my friend.")
    generate = runtime.generate

    def break_off(*given: Any) -> Any:
        generate(*given)
        raise RuntimeError("the device is gone")

    with Session(MODEL) as session:
        with session.stream("Hi") as events:
            next(event for event in events if event.type == "text_delta")
        assert session.messages[-1].stop_reason is StopReason.CANCELLED
        monkeypatch.setattr(runtime, "generate", break_off)
        with pytest.raises(ServerError, match="the device is gone") as raised, session.stream("Again") as events:
            list(events)
    partial = raised.value.partial
    assert partial is not None
    assert (partial.text, partial.stop_reason) == ("Hello there, my friend.", StopReason.ERROR)
