"""The output of commands depends on the terminal, and what they keep on the user: these tests set both."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply
from tests.unit.session.handwritten_replies import Reply

USER_FOLDERS = (
    "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA", "WIN_PD_OVERRIDE_LOCAL_APPDATA",
)  # fmt: skip
"""Variables that decide where a user's configuration and data are, by system."""


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 120 columns. Tests of narrow ones set their own width."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("LINES", raising=False)


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line turns the log records of this process off; later tests read them."""
    monkeypatch.setattr(logger := logging.getLogger("dragoman"), "propagate", logger.propagate)


@pytest.fixture(autouse=True)
def user_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a configuration and conversations."""
    folder = tmp_path_factory.mktemp("user")
    for name in USER_FOLDERS:
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setattr("platformdirs.user_config_path", lambda name, *_, **__: folder / "config" / name)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    return folder


class ScriptedProvider:
    """A provider on loopback. It sends ``replies`` in order, whole or streamed, and keeps the requests."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, request: ReceivedRequest) -> HttpReply:
        self.bodies.append(body := json.loads(request.body))
        reply = self.replies.pop(0)
        return sse_reply(*reply.frames) if body.get("stream") else json_reply(json.loads(reply.body))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    """The provider `anthropic`, with a key in the environment."""
    scripted = ScriptedProvider()
    with FaultyServer(scripted.answer) as server:
        scripted.url = server.url
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-for-tests")
        yield scripted
