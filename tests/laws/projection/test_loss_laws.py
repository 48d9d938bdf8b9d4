"""Laws of losses: the list is empty exactly if the conversation comes back from the wire unchanged."""

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Message, get_adapter
from dragoman.adapter.losses import Severity
from dragoman.testing.conformance.laws.swaps import RoundTrip
from dragoman.testing.strategies import conversations
from tests.conformance.swaps.histories import TARGETS, recorded_histories, target_adapter
from tests.exchanges import load_or_skip
from tests.laws.projection.sources import SOURCES, histories_of
from tests.sampling import examples

targets = pytest.mark.parametrize("target", list(TARGETS))


@st.composite
def two_model_histories(draw: st.DrawFn, target: str) -> list[Message]:
    """Histories of two models, often with the target's own model: whole and broken turns, media, channels."""
    own = target_adapter(target)
    names = st.sampled_from(sorted(SOURCES))
    first, second = (draw(names | st.just(own) if own in SOURCES else names) for _ in range(2))
    scenes = [*draw(histories_of(SOURCES[first], max_scenes=3)), *draw(histories_of(SOURCES[second], max_scenes=3))]
    return [message.model_copy(update={"id": f"{index:026d}"}) for index, message in enumerate(scenes)]


@targets
@examples(30)
@given(history=conversations())
def test_no_loss_exactly_if_everything_comes_back(target: str, history: list[Message]) -> None:
    """A difference without a loss would be silent; a loss without a difference would be a false alarm.

    Additions that a wire requires, such as a placeholder for a missing signature, are not a difference.
    """
    trip = RoundTrip.of(get_adapter(TARGETS[target]), history)
    assert trip.unchanged == (not [loss for loss in trip.losses if loss.message_id]), trip


@targets
@examples(20)
@given(data=st.data())
def test_every_change_is_a_loss_of_its_message(target: str, data: st.DataObject) -> None:
    """For any history: without a loss it comes back the same, and what comes back changed has a loss of its own.

    A warning is never groundless: if content is reported as gone or reduced, the history comes back changed.
    """
    trip = RoundTrip.of(get_adapter(TARGETS[target]), data.draw(two_model_histories(target)))
    note(f"{trip.losses}")
    assert trip.losses or trip.unchanged
    assert not trip.unreported
    assert not trip.unchanged or all(loss.severity is Severity.INFO for loss in trip.losses if loss.message_id)


@pytest.mark.exchanges
@targets
def test_every_change_of_recorded_conversations_is_a_loss(target: str, exhaustive: bool) -> None:
    """The same for real content, with native blocks, sources and signatures."""
    for source in ("anthropic", "openai-responses", "openai-chat", "google", "bedrock", "cohere"):
        load_or_skip(source)
        for history in recorded_histories(source, prefixes=False, one_in=12 if exhaustive else 200):
            trip = RoundTrip.of(get_adapter(TARGETS[target]), history.messages)
            assert not trip.unreported, (history.name, trip.unreported)
            assert trip.losses or trip.unchanged, history.name
