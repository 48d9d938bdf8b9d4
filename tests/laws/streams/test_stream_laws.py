"""The stream laws over every adapter that is installed; `python -m tests.laws` prints what they tried.

The laws themselves are in `dragoman.testing.stream_laws`, for any adapter. Here are the streams: recorded ones if the
recordings are there, and a few written by hand for each wire.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.adapter.registry import providers
from dragoman.testing.stream_laws import LAWS, Effort, StreamSubject, edits, foldings, stream_laws, twins
from tests.laws.streams import faulty_decoders
from tests.laws.streams.effort import effort_for
from tests.laws.streams.ledger import run_law_over
from tests.laws.streams.subjects import (
    MODELS,
    create_adapter,
    handwritten_subject,
    missing_adapters,
    stream_subjects,
    wires_for,
)
from tests.laws.wires.random_replies import random_reply
from tests.tables import each_row
from tests.unit.adapter.toy_adapter import ToyAdapter, lines

SUBJECTS = providers()
"""Every adapter under test, by the name it is registered under."""

REPLIES = 200
"""Replies generated for each wire."""

SAMPLE = 100
"""The default run tries one of this many replays."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Corrupt streams are full of unknown events, and each would be a warning."""
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


def streams_of(provider: str) -> tuple[StreamSubject, ...]:
    """The provider's streams; skips, with the reason, if it cannot be tried."""
    if missing := missing_adapters()[provider]:
        pytest.skip(missing)
    found = stream_subjects(provider)
    if not found:
        pytest.skip(f"nothing is known here of the wire that {provider} speaks")
    return found


@each_row("law", LAWS, ids=str)
@pytest.mark.parametrize("provider", SUBJECTS)
def test_a_law_holds_for_an_adapter(provider: str, law: str, exhaustive: bool) -> None:
    """Whatever happens to a stream's bytes ends in the whole reply or in a typed error."""
    row = run_law_over(law, streams_of(provider), effort_for(provider, share=1 if exhaustive else SAMPLE))
    assert not row.failed, "\n".join(row.faults)


@pytest.mark.parametrize("provider", [provider for provider in SUBJECTS if provider in MODELS])
def test_two_hundred_generated_replies_are_the_same_streamed_and_whole(provider: str, exhaustive: bool) -> None:
    """Content, stop reason, usage and cost; and the deltas add up to them."""
    streams_of(provider)
    adapter = create_adapter(provider)
    wrong: list[str] = []
    for wire in wires_for(adapter):
        for seed in range(REPLIES if exhaustive else REPLIES // 40):
            subject = handwritten_subject(adapter, wire, random_reply(seed), f"handwritten_{seed}")
            trials = [*twins(subject, Effort()), *foldings(subject, Effort())]
            trials += edits(subject, Effort()) if seed % 20 == 0 else ()
            wrong += [f"{seed}, {trial.what}: {trial.faults}" for trial in trials if trial.faults]
    assert not wrong, "\n".join(wrong[:10])


TOY = lines('{"text": "Hel\u2028"}', '{"text": "lo 😀"}', '{"type": "mood"}', '{"done": true}')


def test_the_laws_hold_for_a_third_party_adapter() -> None:
    """They need only the adapter and a recorded stream."""
    verdicts = list(stream_laws(ToyAdapter("m"), TOY, Effort(mutations=300)))
    assert [verdict.law for verdict in verdicts] == list(LAWS)
    assert not [verdict for verdict in verdicts if verdict.failed]
    assert sum(verdict.tried for verdict in verdicts) > 1000


@pytest.mark.parametrize(
    ("faulty", "law"), faulty_decoders.FAULTY_DECODERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_the_laws_find_every_faulty_decoder(faulty: type[ToyAdapter], law: str) -> None:
    """One known fault breaks its law."""
    facts: dict[str, Any] = {"ends_at": len(TOY.rstrip())}
    broken = {
        verdict.law for verdict in stream_laws(faulty("m"), TOY, Effort(mutations=300), **facts) if verdict.failed
    }
    assert law in broken


def test_an_unreadable_stream_is_one_fault() -> None:
    """No law is tried on it."""
    (verdict,) = stream_laws(ToyAdapter("m"), lines('{"text": "Hel"}'))
    assert (verdict.law, verdict.failed) == ("untouched", 1)
