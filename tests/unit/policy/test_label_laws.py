"""No label is lost without a record; `python -m tests.laws.policy.labels` tries far more."""

import logging

import pytest

from tests.laws.policy.labels import Labels, run
from tests.laws.policy.session_labels import SessionLabels
from tests.laws.policy.travelling_labels import TravellingLabels


def test_labels_survive_in_extensions() -> None:
    """Through plugins, copies, stores and merges."""
    run(Labels, 40)


def test_labels_survive_in_sessions(caplog: pytest.LogCaptureFixture, exhaustive: bool) -> None:
    """Labels survive turns that are whole, streamed, abandoned or failed, swaps, summaries, stores, dumps, splits and
    careless plugins.
    """
    with caplog.at_level(logging.CRITICAL):
        run(SessionLabels, 12 if exhaustive else 4)


def test_labels_travel(caplog: pytest.LogCaptureFixture, exhaustive: bool) -> None:
    """Labels pass through sessions, formats, files, stores, bulk runs and batches, in any order."""
    with caplog.at_level(logging.CRITICAL):
        run(TravellingLabels, 12 if exhaustive else 2)
