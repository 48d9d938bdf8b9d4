"""The embedded model summarises, and continues from its own summary."""

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus
from dragoman.session import Session
from tests.unit.local.live.conftest import MODEL, forced_schema
from tests.unit.local.live.wording import reword

pytestmark = pytest.mark.live_local

SUMMARY = "The sky is blue."
FORCED = AdapterOptions(extra={"local": {"output_schema": forced_schema(SUMMARY)}})
"""A free text could be empty, which is not a summary, so the grammar allows only this text."""


@pytest.mark.exhaustive
def test_a_long_conversation_is_compacted_and_continues() -> None:
    """The whole history stays, the summary and the rest are sent, and the cost is known."""
    history = []
    for number in range(6):
        history += [Message.user(f"Fact {number}: " + "the sky is blue today. " * 10), Message.assistant("Noted.")]
    with Session(MODEL, messages=history, options=FORCED) as session:
        summary = session.compact(keep_last=2)
        assert session.messages == (*session.messages[:12], summary)
        assert SUMMARY in summary.text
        assert summary.metadata.summary_of == tuple(message.id for message in session.messages[:10])
        assert summary.metadata.model == MODEL
        assert session.preview(MODEL).fits
        reply = session.ask(reword("What is the capital of France?"))
        assert reply.text == f'"{SUMMARY}"'
        assert session.cost.status is CostStatus.FREE
        assert session.cost.replies == 2
