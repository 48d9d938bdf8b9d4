"""`/compact` and `/preview` in the chat."""

import json

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.testing.faults.server import FaultyServer, json_reply, sse_reply
from tests.unit.session.handwritten_replies import handwritten_anthropic


def test_a_chat_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary is shown with its cost; a preview shows sizes; with nothing to compact it says so."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    replies = [
        sse_reply(*handwritten_anthropic("Good day.").frames),
        json_reply(json.loads(handwritten_anthropic("They greeted.").body)),
    ]
    typed = "/compact\nHi\n/compact heed the names\n/preview ollama:qwen3\n/help\n/quit\n"
    with FaultyServer(replies) as server:
        words = ["chat", "anthropic:claude-sonnet-4-6", "--base-url", server.url]
        done = CliRunner().invoke(app, words, input=typed)
    assert done.exit_code == 0, done.output
    assert "nothing to compact" in done.output
    assert "They greeted." in done.output
    assert "12 in, 5 out" in done.output
    assert "next turn: free" in done.output
    assert "/compact" in done.output
