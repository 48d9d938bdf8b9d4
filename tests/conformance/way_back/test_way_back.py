"""The way back over the recordings, with thresholds. ``python -m tests.conformance.way_back`` prints every difference.

The default run takes a few replies of some providers, `exhaustive` a tenth of those of all, and the command all.
"""

import pytest

from tests.conformance.way_back import own_wire, pairs, turns
from tests.conformance.way_back.report import EXPLAINED
from tests.conformance.way_back.subjects import CLIENT_WIRES, Recorded, recorded_replies
from tests.exchanges import load_or_skip

pytestmark = pytest.mark.exchanges

OWN_EQUAL = 0.995
SAMPLED = ("anthropic", "openai-chat", "openai-responses", "google", "ollama", "bedrock", "mistral")
_FEW = 8
"""How many replies of a provider the default run takes."""
_STEP = 10
"""The exhaustive run takes one reply of so many."""


def replies(provider: str, every: bool) -> list[Recorded]:
    load_or_skip(provider)
    step = _STEP if every else max(1, len(load_or_skip(provider)) // _FEW)
    return list(recorded_replies(provider, 0, step))


def params(names: tuple[str, ...]) -> list[object]:
    """Each provider with a few replies, and with more under `exhaustive`."""
    full = [pytest.param(name, True, id=f"{name}-more", marks=pytest.mark.exhaustive) for name in ALL if name in names]
    return [pytest.param(name, False, id=name) for name in names if name in SAMPLED] + full


ALL = own_wire.OWN_WIRES + tuple(name for name in pairs.PROVIDERS if name not in own_wire.OWN_WIRES)


@pytest.mark.parametrize(("provider", "every"), params(own_wire.OWN_WIRES))
def test_a_reply_on_its_own_wire_stays_as_it_was(provider: str, every: bool) -> None:
    """Whole replies, streams and errors."""
    found = [outcome for recorded in replies(provider, every) for outcome in own_wire.compare(recorded)]
    for form in ("whole", "stream", "error"):
        outcomes = [outcome for outcome in found if outcome.form == form]
        different = [outcome for outcome in outcomes if outcome.differences]
        allowed = (1 - OWN_EQUAL) * len(outcomes) if form == "whole" else 0
        explained = [outcome for outcome in different if all(each.what in EXPLAINED for each in outcome.differences)]
        assert len(different) - len(explained) <= allowed, [
            (outcome.recorded.exchange.id, list(map(str, outcome.differences))) for outcome in different[:20]
        ]


@pytest.mark.parametrize(("provider", "every"), params(ALL))
def test_every_client_reads_what_the_message_says(provider: str, every: bool) -> None:
    """Its own SDK parses each reply, whole and streamed, and what it does not see is a loss."""
    recorded_now = replies(provider, every)
    found = [pair for wire in CLIENT_WIRES for recorded in recorded_now for pair in pairs.compare(recorded, wire)]
    assert found
    different = [(pair.recorded.exchange.id, pair.wire, pair.form, str(each))
                 for pair in found for each in pair.differences]  # fmt: skip
    assert not different, (len(different), different[:20])


@pytest.mark.parametrize(("provider", "every"), params(ALL))
def test_a_second_turn_gives_the_same_history(provider: str, every: bool) -> None:
    """What the client echoes, with results for its calls, is read as what was said, with its provider's state."""
    recorded_now = replies(provider, every)
    found = [turn for wire in CLIENT_WIRES for recorded in recorded_now for turn in turns.compare(recorded, wire)]
    assert found
    different = [(turn.recorded.exchange.id, turn.wire, turn.form, str(each))
                 for turn in found for each in turn.differences]  # fmt: skip
    assert not different, (len(different), different[:20])
