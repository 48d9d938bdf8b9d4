"""Our own adapters pass the kit that every adapter has to pass; `dragoman conform` shows the same as a scorecard."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.adapter.errors import StreamTruncatedError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageStart, StreamEvent, TextDelta
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.testing.conformance import LAWS, Law, Mark, Subject
from dragoman.testing.conformance.generate import generate_histories
from dragoman.testing.conformance.laws.swaps import RoundTrip
from dragoman.testing.conformance.suite import quiet
from dragoman.testing.doubles.scripted_adapter import ScriptedAdapter
from dragoman.testing.stream_checks import partial_stream_faults
from tests.conformance.kit.subjects import PROVIDERS, subject_of

CHAPTERS = tuple(dict.fromkeys(law.chapter for law in LAWS))


def laws_of(chapter: str) -> list[Law]:
    return [law for law in LAWS if law.chapter == chapter]


@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_our_adapters_pass_the_kit(provider: str, chapter: str) -> None:
    """No law is broken, and each law that is not tried has a reason."""
    subject = subject_of(provider)
    with quiet():
        results = [law.run(subject) for law in laws_of(chapter)]
    broken = [f"{result.law}: {fault}" for result in results for fault in result.verdict.faults]
    assert not broken, "\n".join(broken)
    assert all(result.skip_reason for result in results if result.mark is Mark.NOT_TRIED)
    assert any(result.mark is Mark.HOLDS for result in results)


@pytest.mark.parametrize("kind", ["foreign", "any"])
def test_a_greater_number_only_adds_histories(kind: str) -> None:
    """So an adapter that passes with 200 passes with any number up to 200."""
    texts = [[(each.role, each.content) for each in history] for history in generate_histories(kind, "", 60)]
    assert len(texts) == 60
    for number in (1, 25):
        fewer = generate_histories(kind, "", number)
        assert [[(each.role, each.content) for each in history] for history in fewer] == texts[:number]


@pytest.mark.exhaustive
@pytest.mark.parametrize("provider", PROVIDERS)
def test_any_number_of_histories_passes(provider: str) -> None:
    """From 1 to 200: calls outside the assistant's messages, which some of these hold, take no number."""
    subject = subject_of(provider)
    subject = replace(subject, effort=replace(subject.effort, histories=200))
    with quiet():
        results = [law.run(subject) for chapter in ("contract", "swap", "ids") for law in laws_of(chapter)]
    assert [f"{result.law}: {fault}" for result in results for fault in result.verdict.faults] == []


def test_a_call_in_a_user_message_takes_no_number() -> None:
    """It becomes text, which is a loss; the assistant's call after it comes back as it was."""
    misplaced = Message(role=Role.USER, content=(ToolUseBlock(id="tu_0", name="look", input={}),))
    call = Message.assistant([ToolUseBlock(id="tu_1", name="look", input={})])
    found = RoundTrip.of(get_adapter("openai-chat:gpt-4.1"), [misplaced, call, Message.tool("tu_1", "Found.")])
    assert found.unreported == []
    assert {loss.message_id for loss in found.losses} == {misplaced.id}


class _OnlyTemperature(ScriptedAdapter):
    """An honest adapter of a wire with one of the sampling parameters."""

    provider = "only-temperature"

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        if request.used.take("top_p") is not None:
            request.record_option_loss("top_p", "the wire has no such option")
        return super().encode_body(request, tools)


class _NoSampling(_OnlyTemperature):
    """Says that it takes sampling parameters, and takes none."""

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        if request.used.take("temperature") is not None:
            request.record_option_loss("temperature", "the wire has no such option")
        return super().encode_body(request, tools)


@pytest.mark.parametrize(("kind", "mark"), [(_OnlyTemperature, Mark.HOLDS), (_NoSampling, Mark.BROKEN)])
def test_sampling_is_judged_option_by_option(kind: type[ScriptedAdapter], mark: Mark) -> None:
    """A missing option is honest; a declaration without any option is not."""
    (law,) = (each for each in LAWS if each.name == "sampling")
    assert law.run(Subject(kind("m"))).mark is mark


def test_an_error_without_the_partial_message_is_refused() -> None:
    """What the stream had said is in the partial message."""
    events: list[StreamEvent] = [MessageStart("m", "model"), TextDelta("m", 0, "Hello")]
    broken = [*events, ErrorEvent(StreamTruncatedError("cut"), None)]
    assert list(partial_stream_faults(broken, events, early=True, network=True))[-1].startswith("the error has no")
