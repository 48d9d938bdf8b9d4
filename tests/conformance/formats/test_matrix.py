"""What is written for other libraries is accepted by those that are installed, and nothing is lost unnamed."""

import logging

import pytest

from tests.conformance.formats.library_files import conversations_folder
from tests.conformance.formats.matrix import build_matrix, sample_conversations
from tests.conformance.formats.round_trips import FORMATS


def test_the_samples_pass_through_every_format(caplog: pytest.LogCaptureFixture, exhaustive: bool) -> None:
    """The message with everything comes first. `python -m tests.conformance.formats.matrix` prints the table."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    rows = build_matrix(list(sample_conversations(0))[:: 1 if exhaustive else 6])
    assert [row.name for row in rows[: len(FORMATS)]] == list(FORMATS)
    assert {row.name: [*row.trips.faults, *row.refused] for row in rows if row.trips.faults or row.refused} == {}
    assert {"openai-chat", "openai", "anthropic", "google", "ollama"} <= {
        row.name for row in rows if row.accepted == row.trips.tried
    }


@pytest.mark.exhaustive
def test_library_files_pass_through_every_format(caplog: pytest.LogCaptureFixture) -> None:
    """All conversations that other libraries wrote."""
    if not conversations_folder().is_dir():
        pytest.skip("the folder of shared conversations is absent")
    caplog.set_level(logging.CRITICAL, "dragoman")
    rows = build_matrix(list(sample_conversations()))
    assert {row.name: [*row.trips.faults, *row.refused][:5] for row in rows if row.trips.faults or row.refused} == {}
