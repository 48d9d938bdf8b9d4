"""The laws of every format: written documents are read, and come back except for the listed losses."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from dragoman import Message
from dragoman.formats import (
    from_acp,
    from_chatml,
    from_cmf,
    from_native,
    from_umf,
    to_acp,
    to_chatml,
    to_cmf,
    to_native,
    to_umf,
)
from dragoman.formats.results import Conversion
from dragoman.testing.conformance.laws.swaps import RoundTrip, iterate_blocks
from dragoman.testing.strategies import conversations, histories, messages
from tests.sampling import examples
from tests.unit.formats.documents import everything

Writer = Callable[[list[Message]], Conversion[Any]]
Reader = Callable[[Any], list[Message]]

NATIVE = ("openai-chat", "openai", "anthropic", "ollama", "google", "mistral", "cohere", "bedrock")

FORMATS: dict[str, tuple[Writer, Reader]] = {
    "cmf": (to_cmf, from_cmf),
    "umf": (to_umf, from_umf),
    "acp": (to_acp, from_acp),
    "chatml": (to_chatml, from_chatml),
    **{
        name: (
            lambda history, name=name: to_native(name, history),  # type: ignore[misc]
            lambda data, name=name: from_native(name, data),  # type: ignore[misc]
        )
        for name in NATIVE
    },
}

WRITTEN_FORMATS = ("cmf", "umf", "acp", "chatml")
formats = pytest.mark.parametrize("name", list(FORMATS))
shapes = pytest.mark.parametrize("name", WRITTEN_FORMATS)
native = pytest.mark.parametrize("name", NATIVE)
few = examples(30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Turns off the log of losses, which are expected here."""
    caplog.set_level(logging.CRITICAL, "dragoman")


def trip(before: list[Message], written: Conversion[Any], after: list[Message]) -> RoundTrip:
    return RoundTrip(list(iterate_blocks(before)), [block for _, block in iterate_blocks(after)], written.losses)


@shapes
@few
@given(history=histories())
def test_differences_are_the_listed_losses(name: str, history: list[Message]) -> None:
    """What no loss names comes back as it was, in its order."""
    to, of = FORMATS[name]
    written = to(history)
    assert trip(history, written, of(written.data)).unreported == []


@shapes
@few
@given(history=histories())
def test_our_document_is_rewritten_unchanged(name: str, history: list[Message]) -> None:
    """Reading and writing changes nothing in our writer's documents, also through JSON text."""
    to, of = FORMATS[name]
    document = to(history).data
    assert to(of(document if name == "chatml" else json.dumps(document))).data == document


@native
@few
@given(history=conversations())
def test_a_native_list_keeps_all_but_losses_and_is_rewritten_unchanged(name: str, history: list[Message]) -> None:
    """A native list keeps all but losses and is rewritten unchanged for clean histories; the tests of adapters cover
    the others.
    """
    to, of = FORMATS[name]
    written = to(history)
    back = of(json.dumps(written.data))
    assert trip(history, written, back).unreported == []
    assert to(back).data == written.data


@few
@given(history=histories() | st.lists(messages, max_size=3))
def test_the_way_back_from_cmf_is_complete(history: list[Message]) -> None:
    """Everything, with provider_raw, which equality ignores."""
    back = from_cmf(json.dumps(to_cmf(history).data))
    assert back == history
    assert [message.metadata.provider_raw for message in back] == [message.metadata.provider_raw for message in history]


@formats
def test_writing_is_deterministic(name: str) -> None:
    """The same history gives the same document and the same losses."""
    to, _ = FORMATS[name]
    assert to(everything()) == to(everything())


@formats
def test_an_empty_history_is_an_empty_document(name: str) -> None:
    """It has no losses."""
    to, of = FORMATS[name]
    written = to([])
    assert not written.data
    assert written.losses == ()
    assert of(written.data) == []


@shapes
def test_a_loss_names_a_message_and_a_block(name: str) -> None:
    """Readers of the list can find it."""
    history = everything()
    by_id = {message.id: message for message in history}
    losses = FORMATS[name][0](history).losses
    assert losses
    for loss in losses:
        content = by_id[loss.message_id].content
        assert -1 <= loss.block_index < len(content)
        assert loss.block_type == (content[loss.block_index].type if loss.block_index >= 0 else "")
        assert loss.reason
