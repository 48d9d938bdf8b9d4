"""Histories written for other libraries: these accept and send them. Runs where the libraries are installed."""

import logging

import pytest

from tests.conformance.formats.peers.__main__ import histories
from tests.conformance.formats.peers.environments import VARIABLE, interpreter, libraries, peers_folder
from tests.conformance.formats.peers.report import check_peer


@pytest.mark.exhaustive
@pytest.mark.parametrize("library", libraries())
def test_a_library_accepts_and_sends_what_is_written_for_it(library: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its own copy says the same, and ``llm -c`` continues a log."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    folder = peers_folder()
    if folder is None or interpreter(library, folder) is None:
        pytest.skip(f"no libraries: python -m tests.conformance.formats.peers --install FOLDER, and set {VARIABLE}")
    row = check_peer(library, histories(2), folder)
    assert row.faults == []
    assert row.accepted == row.tried > 0
