"""The embedded model summarises, and goes on from its own summary."""

from dragoman.adapter.contract import AdapterOptions
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus
from dragoman.session import Session
from tests.live_local.conftest import MODEL

SHORT = AdapterOptions(extra={"local": {"options": {"max_tokens": 48}}})
"""So that the test is: what the model is left to write takes it a while."""


def test_a_long_talk_is_compacted_and_goes_on() -> None:
    """The whole history stays, what is sent is the summary and the rest, and the bill is known."""
    told = []
    for number in range(6):
        told += [Message.user(f"Fact {number}: " + "the sky is blue today. " * 10), Message.assistant("Noted.")]
    with Session(MODEL, messages=told, options=SHORT) as session:
        summary = session.compact(keep_last=2)
        assert session.messages == (*session.messages[:12], summary)
        assert summary.metadata.summary_of == tuple(message.id for message in session.messages[:10])
        assert summary.metadata.model == MODEL
        assert session.preview(MODEL).fits
        reply = session.ask("What is the capital of France?", max_output_tokens=24)
        assert reply.text
        assert session.cost.status is CostStatus.FREE
        assert session.cost.replies == 2
