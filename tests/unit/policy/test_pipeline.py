"""The pipeline: order, modes, failures and limits, without await and with."""

import asyncio
import logging
import pickle
import threading
import time
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.canonical.message import Message
from dragoman.policy import (
    Extensions,
    Pipeline,
    Plugin,
    PolicyDeniedError,
    PolicyError,
    Step,
    TierViolation,
    Violation,
    hook,
)
from tests.unit.policy.pipelines import HI, Run, appending_plugin, recording_plugin


def test_plugins_run_by_mode_then_priority_then_position(run: Run) -> None:
    """Whatever the order in which they are given."""
    order: list[str] = []
    plugins = [
        recording_plugin(order, "aside", mode="concurrent", priority=1),
        recording_plugin(order, "audit", mode="audit", priority=1),
        recording_plugin(order, "change", mode="transform", priority=1),
        recording_plugin(order, "late", priority=200),
        recording_plugin(order, "one"),
        recording_plugin(order, "two"),
        recording_plugin(order, "early", priority=-5),
    ]
    run(Pipeline(plugins))
    assert order == ["early", "one", "two", "late", "change", "audit", "aside"]


def test_only_plugins_of_the_hook_run(run: Run) -> None:
    """By name or by member; without any, the same message and extensions are returned."""
    order: list[str] = []
    whole = Extensions()
    pipeline = Pipeline([recording_plugin(order, "n")])
    outcome = run(pipeline, HI, whole, at="cmf.llm_input")
    assert (order, outcome.message is HI, outcome.extensions is whole) == ([], True, True)
    assert pipeline.has_plugins("evaluate")
    assert not pipeline.has_plugins("cmf.llm_input")


def test_changes_add_up(run: Run) -> None:
    """Each plugin sees what the one before it returned; hidden parts stay."""
    outcome = run(
        Pipeline([appending_plugin("a"), appending_plugin("b", mode="transform"), appending_plugin("0", priority=1)])
    )
    assert outcome.message.text == "Hi0ab"
    assert outcome.message.id == HI.id


@pytest.mark.parametrize("mode", ["sequential", "concurrent"])
def test_a_violation_stops_the_step(run: Run, mode: str) -> None:
    """The error has hook, plugin, code, reason and description, and survives pickling; later plugins do not run."""
    order: list[str] = []

    @hook("evaluate", mode=mode)
    def stop(step: Step) -> Violation:
        return Violation("it is late", code="late", description="Come back tomorrow.")

    last = recording_plugin(order, "after", mode="concurrent" if mode == "sequential" else "fire_and_forget")
    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([stop, last]))
    for error in (denied.value, pickle.loads(pickle.dumps(denied.value))):
        assert (error.hook, error.plugin, error.code, error.reason) == ("evaluate", "stop", "late", "it is late")
        assert error.description == "Come back tomorrow."
        assert isinstance(error, PolicyError)
        assert isinstance(error, DragomanError)
    assert order == []


def test_the_highest_priority_names_a_refusal_of_several(run: Run) -> None:
    """Although they run concurrently, and another one may be faster."""

    def stop(name: str, wait: float) -> Plugin:
        def check(step: Step) -> Violation:
            time.sleep(wait)
            return Violation("no", code=name)

        return hook("evaluate", name=name, mode="concurrent")(check)

    with pytest.raises(PolicyDeniedError, match=r"\(slow\)"):
        run(Pipeline([stop("slow", 0.02), stop("fast", 0)]))


def test_concurrent_plugins_run_at_the_same_time() -> None:
    """Each waits for the other: in sequence they would never end."""
    barrier = threading.Barrier(2, timeout=60)

    def meet(step: Step) -> None:
        barrier.wait()

    Pipeline([hook("evaluate", name=name, mode="concurrent")(meet) for name in "ab"]).run("evaluate", HI)


def test_concurrent_coroutines_run_at_the_same_time() -> None:
    async def main() -> None:
        barrier = asyncio.Barrier(2)

        async def meet(step: Step) -> None:
            await asyncio.wait_for(barrier.wait(), 60)

        plugins = [hook("evaluate", name=name, mode="concurrent")(meet) for name in "ab"]
        await Pipeline(plugins).run_async("evaluate", HI)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["raises", "returns nonsense", "is forged"])
def test_a_failing_plugin_denies(run: Run, kind: str) -> None:
    """With the failure as its cause, and without its text, which may quote anything."""

    @hook("evaluate")
    def broken(step: Step) -> Any:
        if kind == "raises":
            raise ValueError("hunter2")
        return False if kind == "returns nonsense" else Message.user("Hi", session_id="s")

    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([broken]))
    assert "hunter2" not in str(denied.value)
    assert denied.value.code == ("tier_violation" if kind == "is forged" else "plugin_error")
    assert isinstance(denied.value.__cause__, (ValueError, TypeError, TierViolation))


@pytest.mark.parametrize("mode", ["sequential", "transform", "audit", "concurrent"])
def test_failing_open_has_to_be_declared(run: Run, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Then the step continues without the plugin, with a warning, in every mode that delays the step."""

    def broken(step: Step) -> None:
        raise ValueError("hunter2")

    with pytest.raises(PolicyDeniedError, match="plugin_error"):
        run(Pipeline([hook("evaluate", mode=mode)(broken)]))
    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert run(Pipeline([hook("evaluate", mode=mode, on_error="ignore")(broken)])).message is HI
    assert "continues without the plugin broken" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("mode", ["sequential", "concurrent"])
def test_a_slow_plugin_times_out(run: Run, mode: str) -> None:
    """A function in its thread, a coroutine in its task; the step is denied, or goes on as declared."""
    done = threading.Event()

    @hook("evaluate", timeout=0.02, mode=mode)
    def slow(step: Step) -> None:
        done.wait(60)

    try:
        with pytest.raises(PolicyDeniedError, match=r"\(timeout\)"):
            run(Pipeline([slow]))
    finally:
        done.set()

    @hook("evaluate", timeout=0.02, on_error="ignore", mode=mode)
    async def waiting(step: Step) -> None:
        await asyncio.sleep(60)

    assert asyncio.run(Pipeline([waiting]).run_async("evaluate", HI)).message is HI


def test_a_plugin_with_a_timeout_runs_in_a_thread(run: Run) -> None:
    @hook("evaluate", timeout=60)
    def quick(step: Step) -> Violation:
        return Violation("no", code=threading.current_thread().name)

    with pytest.raises(PolicyDeniedError, match="policy-quick"):
        run(Pipeline([quick]))


def test_coroutines_are_awaited_and_refused_without_await() -> None:
    """A coroutine is never taken for an answer."""

    @hook("evaluate")
    async def stop(step: Step) -> Violation:
        return Violation("no")

    pipeline = Pipeline([stop])
    assert pipeline.async_names == ("stop",)
    with pytest.raises(PolicyDeniedError):
        asyncio.run(pipeline.run_async("evaluate", HI))
    with pytest.raises(ConfigurationError, match="AsyncSession"):
        pipeline.run("evaluate", HI)


def test_fire_and_forget_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """It is started, its answer is ignored, and its failure is logged."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    @hook("evaluate", mode="fire_and_forget")
    def slow(step: Step) -> Violation:
        begun.set()
        may_end.wait(60)
        ended.set()
        return Violation("no")

    assert Pipeline([slow]).run("evaluate", HI).message is HI
    assert begun.wait(60)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)

    async def main() -> list[str]:
        called: list[str] = []

        @hook("evaluate", mode="fire_and_forget")
        async def failing(step: Step) -> None:
            called.append(step.hook)
            raise ValueError("hunter2")

        await Pipeline([failing]).run_async("evaluate", HI)
        assert called == []
        await asyncio.sleep(0.01)
        return called

    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert asyncio.run(main()) == ["evaluate"]
    assert "the plugin failing failed at evaluate: ValueError" in caplog.text


@pytest.mark.parametrize(
    ("mode", "answer", "code"),
    [
        ("transform", Violation("no"), "tier_violation"),
        ("audit", "change", "tier_violation"),
        ("concurrent", "change", "tier_violation"),
    ],
)
def test_a_mode_limits_what_a_plugin_may_do(run: Run, mode: str, answer: Any, code: str) -> None:
    """Exceeding the mode is a fault of the plugin, which denies as any fault does."""

    @hook("evaluate", mode=mode)
    def overreaching(step: Step) -> Any:
        return step.message.model_copy(update={"content": ()}) if answer == "change" else answer

    with pytest.raises(PolicyDeniedError, match=code):
        run(Pipeline([overreaching]))


def test_an_audit_violation_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """It stops nothing."""

    @hook("evaluate", mode="audit")
    def objecting(step: Step) -> Violation:
        return Violation("hunter2", code="odd")

    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert run(Pipeline([objecting])).message is HI
    assert "would deny evaluate: odd" in caplog.text


def test_a_condition_decides_whether_a_plugin_runs(run: Run) -> None:
    """Its failure is the plugin's."""
    order: list[str] = []
    run(
        Pipeline(
            [
                recording_plugin(order, "never", when=lambda step: False),
                recording_plugin(order, "ever", when=lambda step: True),
            ]
        )
    )
    assert order == ["ever"]
    with pytest.raises(PolicyDeniedError, match="plugin_error"):
        run(Pipeline([recording_plugin(order, "broken", when=lambda step: 1 / 0 > 0)]))


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"hooks": ()}, "names no hook"),
        ({"hooks": ("cmf.llm_inptu",)}, "did you mean cmf.llm_input"),
        ({"mode": "sequentail"}, "did you mean sequential"),
        ({"on_error": "pass"}, "there are deny, ignore"),
        ({"timeout": 0}, "timeout"),
        ({"window": 0}, "window"),
        ({"capabilities": ["read_everything"]}, "not a capability"),
    ],
)
def test_an_invalid_declaration_is_refused(declared: dict[str, Any], expected: str) -> None:
    """When the pipeline is made, with what to write instead."""
    plugin = type("Odd", (Plugin,), {"hooks": ("evaluate",), **declared})()
    with pytest.raises(ConfigurationError, match=expected):
        Pipeline([plugin])


def test_a_pipeline_needs_plugins_with_unique_names() -> None:
    with pytest.raises(ConfigurationError, match="is not a plugin"):
        Pipeline([lambda step: None])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="two plugins"):
        Pipeline([recording_plugin([], "n"), recording_plugin([], "n")])
    for rules in ({"signed": "keep"}, {"unknown": "pass"}, {"denied_calls": "ask"}):
        with pytest.raises(ConfigurationError, match=r": use (drop or deny|raise or answer)"):
            Pipeline(**rules)  # type: ignore[arg-type]


def test_the_window_is_the_largest_declared_one() -> None:
    """None if a plugin has to see everything; audits see the whole anyway."""
    plugins = [recording_plugin([], str(size), window=size) for size in (5, 9)]
    assert Pipeline(plugins).window == 0
    at = [hook("cmf.llm_output", name=str(size), window=size)(lambda step: None) for size in (5, 9)]
    assert Pipeline(at).window == 9
    audit = hook("cmf.llm_output", name="audit", mode="audit")(lambda step: None)
    assert Pipeline([*at, audit]).window == 9
    whole = hook("cmf.llm_output", name="whole")(lambda step: None)
    assert Pipeline([*at, whole]).window is None
