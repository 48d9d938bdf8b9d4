"""The laws of every format: what is written is read, what comes back differs by the listed losses and by nothing else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import Message
from dragoman.formats import from_chatml, from_cmf, from_native, from_umf, to_chatml, to_cmf, to_native, to_umf
from dragoman.formats.written import Written
from tests.laws.return_trip import Trip, _said
from tests.laws.strategies import histories, messages
from tests.unit.formats.documents import everything

Writer = Callable[[list[Message]], Written[Any]]
Reader = Callable[[Any], list[Message]]

NATIVE = ("openai-chat", "openai", "anthropic", "ollama", "google", "mistral", "cohere", "bedrock")

FORMATS: dict[str, tuple[Writer, Reader]] = {
    "cmf": (to_cmf, from_cmf),
    "umf": (to_umf, from_umf),
    "chatml": (to_chatml, from_chatml),
    **{
        name: (
            lambda history, name=name: to_native(name, history),  # type: ignore[misc]
            lambda data, name=name: from_native(name, data),  # type: ignore[misc]
        )
        for name in NATIVE
    },
}

formats = pytest.mark.parametrize("name", list(FORMATS))
few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def trip(before: list[Message], written: Written[Any], after: list[Message]) -> Trip:
    return Trip(list(_said(before)), [said for _, said in _said(after)], written.losses)


@formats
@few
@given(history=histories())
def test_what_comes_back_differs_by_the_listed_losses_alone(name: str, history: list[Message]) -> None:
    """Whatever no loss names comes back as it was said, in the order in which it was said."""
    to, of = FORMATS[name]
    written = to(history)
    assert trip(history, written, of(written.data)).unsaid == []


@formats
@few
@given(history=histories())
def test_a_document_of_ours_is_written_again_as_it_was(name: str, history: list[Message]) -> None:
    """Reading and writing changes nothing in a document that a writer of ours has made, also through its JSON text.

    What a provider's own request would change is changed once, when the list is first written.
    """
    to, of = FORMATS[name]
    first = to(history).data
    read = of(first if name == "chatml" else json.dumps(first))
    settled = to(read).data if name in NATIVE else first
    assert to(of(settled)).data == settled


@few
@given(history=histories() | st.lists(messages, max_size=3))
def test_the_way_back_from_cmf_is_whole(history: list[Message]) -> None:
    """Everything but a provider's raw notes, which count not for equality, and those too."""
    back = from_cmf(json.dumps(to_cmf(history).data))
    assert back == history
    assert [message.metadata.provider_raw for message in back] == [message.metadata.provider_raw for message in history]


@formats
def test_writing_is_the_same_each_time(name: str) -> None:
    """The same history gives the same document and the same losses."""
    to, _ = FORMATS[name]
    assert to(everything()) == to(everything())


@formats
def test_an_empty_history_is_an_empty_document(name: str) -> None:
    """Nothing said is nothing lost."""
    to, of = FORMATS[name]
    written = to([])
    assert not written.data
    assert written.losses == ()
    assert of(written.data) == []


@formats
def test_a_loss_names_a_message_and_a_block_of_it(name: str) -> None:
    """Who reads the list finds what was lost."""
    history = everything()
    by_id = {message.id: message for message in history}
    losses = FORMATS[name][0](history).losses
    assert losses
    for loss in losses:
        content = by_id[loss.message_id].content
        assert -1 <= loss.block_index < len(content)
        assert loss.block_type == (content[loss.block_index].type if loss.block_index >= 0 else "")
        assert loss.reason
