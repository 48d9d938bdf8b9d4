"""A sample of the recordings through every format and back; `python -m "
"tests.conformance.formats.round_trips` takes them all."""

import logging

import pytest

from tests.conformance.formats.round_trips import SOURCES, CassetteRow, check_all, check_cassettes
from tests.exchanges import load_or_skip

_OF_EACH = 2
_TELLING = ("anthropic", "openai-responses", "openai-chat", "google", "ollama", "bedrock")


@pytest.mark.exchanges
@pytest.mark.parametrize("source", _TELLING)
def test_recorded_conversations_come_back(source: str, caplog: pytest.LogCaptureFixture) -> None:
    """Everything except the named losses, and each document is rewritten unchanged."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    load_or_skip(source)
    for row in check_all([source], _OF_EACH):
        assert row.tried == _OF_EACH
        assert row.faults == []


@pytest.mark.exchanges
@pytest.mark.parametrize("source", SOURCES)
def test_recordings_are_read_as_cassettes(source: str) -> None:
    """Every provider is recognised by address."""
    load_or_skip(source)
    row = CassetteRow()
    check_cassettes(source, _OF_EACH, row)
    assert row.exchanges > 0
    assert row.faults == []
