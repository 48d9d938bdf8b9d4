"""Laws of losses: the list is empty exactly where the conversation comes back from the wire as it went in."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman import Message, Role
from dragoman.adapter.losses import Severity
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.ids import encode_ulid
from dragoman.canonical.message import MessageMetadata
from tests.conformance.handover import TARGETS, recorded, target_adapter
from tests.exchanges import load_or_skip
from tests.laws.return_trip import Trip
from tests.laws.sources import SOURCES, histories_of

_NOW = datetime(2026, 11, 1, tzinfo=UTC)
targets = pytest.mark.parametrize("target", list(TARGETS))
_PIXEL = MediaSource(kind="base64", data="iVBORw0KGgo=")

words = st.sampled_from(("Hello.", "It rains.", "ü 😀")).map(lambda text: TextBlock(text=text))
images = st.just(ImageBlock(source=_PIXEL, media_type="image/png"))
thoughts = st.just(ThinkingBlock(text="Hm.", signature="c2ln"))


@st.composite
def plain_histories(draw: st.DrawFn) -> list[Message]:
    """What a model from elsewhere and its user say where nothing goes wrong: words, images, calls and answers."""
    numbers = iter(range(100))
    history: list[Message] = []

    def say(role: Role, content: Sequence[ContentBlock], model: str | None = None) -> None:
        metadata = MessageMetadata(model=model, provider=model and model.partition(":")[0])
        history.append(
            Message(id=f"{len(history):026d}", role=role, content=tuple(content), metadata=metadata, created_at=_NOW)
        )

    if draw(st.booleans()):
        say(Role.SYSTEM, [draw(words)])
    for _ in range(draw(st.integers(1, 2))):
        say(Role.USER, draw(st.lists(words | images, min_size=1, max_size=2)))
        if draw(st.booleans()):
            calls = [ToolUseBlock(id=f"tu_{encode_ulid(next(numbers))}", name="look", input={"at": "Bern"})]
            spoken: SearchStrategy[list[ContentBlock]] = st.lists(words | thoughts, max_size=1)
            say(Role.ASSISTANT, [*draw(spoken), *calls, *draw(st.lists(words, max_size=1))], "elsewhere:model")
            for call in calls:
                answer = ToolResultBlock(tool_use_id=call.id, content=(draw(words),), is_error=draw(st.booleans()))
                say(Role.TOOL, [answer])
        say(Role.ASSISTANT, draw(st.lists(words, min_size=1, max_size=2)), "elsewhere:model")
    say(Role.USER, [draw(words)])
    return history


@st.composite
def told(draw: st.DrawFn, target: str) -> list[Message]:
    """What two models leave behind, one of them often the target's own: whole and broken turns, media, channels."""
    own = target_adapter(target)
    names = st.sampled_from(sorted(SOURCES))
    first, second = (draw(names | st.just(own) if own in SOURCES else names) for _ in range(2))
    scenes = [*draw(histories_of(SOURCES[first], max_scenes=3)), *draw(histories_of(SOURCES[second], max_scenes=3))]
    return [message.model_copy(update={"id": f"{index:026d}"}) for index, message in enumerate(scenes)]


@targets
@settings(max_examples=30)
@given(history=plain_histories())
def test_nothing_is_lost_exactly_where_all_comes_back(target: str, history: list[Message]) -> None:
    """A difference without a loss would be silent; a loss without a difference would cry wolf.

    What a wire wants beyond what was said, such as a word that stands for a missing signature, is no difference.
    """
    trip = Trip.of(TARGETS[target], history)
    assert trip.same == (not [loss for loss in trip.losses if loss.message_id]), trip


@targets
@settings(max_examples=20)
@given(data=st.data())
def test_what_changes_is_a_loss_of_its_message(target: str, data: st.DataObject) -> None:
    """Of any history: without a loss it comes back the same, and what comes back changed has a loss of its own.

    A warning is never for nothing: where content is said to be gone or reduced, the history comes back changed.
    """
    trip = Trip.of(TARGETS[target], data.draw(told(target)))
    note(f"{trip.losses}")
    assert trip.losses or trip.same
    assert not trip.unsaid
    assert not trip.same or all(loss.severity is Severity.INFO for loss in trip.losses if loss.message_id)


@pytest.mark.exchanges
@targets
def test_what_changes_of_recorded_conversations_is_a_loss(target: str) -> None:
    """The same of what was really said, native blocks, sources and signatures included."""
    for source in ("anthropic", "openai-responses", "openai-chat", "google", "bedrock", "cohere"):
        load_or_skip(source)
        for history in list(recorded(source, prefixes=False))[::12]:
            trip = Trip.of(TARGETS[target], history.messages)
            assert not trip.unsaid, (history.name, trip.unsaid)
            assert trip.losses or trip.same, history.name
