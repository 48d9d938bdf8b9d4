"""A conversation in three programs, on two providers: the ids stay, and earlier content is sent again byte for byte."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.store.resuming import ANTHROPIC, OLLAMA, PARTS

ROOT = Path(__file__).parents[2]


def run(url: str, part: str) -> dict[str, Any]:
    program = [sys.executable, "-m", "tests.store.resuming", url, part]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


def sent_messages(body: str) -> str:
    """The messages of a request, as they are in it, without the closing bracket."""
    start = body.index('"messages":') + len('"messages":')
    _, length = json.JSONDecoder().raw_decode(body[start:])
    return body[start : start + length - 1]


@pytest.mark.exhaustive
def test_a_session_with_pending_calls_continues_in_other_programs(lasting_place: str) -> None:
    """Stored by one program, answered by the next on another provider, and brought back: the same ids, and each request
    starts with the bytes of the provider's last one.
    """
    first, second, last = (run(lasting_place, part) for part in PARTS)
    assert [part["model"] for part in (first, second, last)] == [ANTHROPIC, OLLAMA, ANTHROPIC]

    done, waiting, open_ = first["calls"]
    assert all(call.startswith("tu_") for call in first["calls"])
    assert first["rows"] == [[done, "succeeded"], [waiting, "pending"], [open_, "pending"]]
    assert second["rows"][:3] == [[done, "succeeded"], [waiting, "succeeded"], [open_, "pending"]]
    assert second["calls"][:3] == first["calls"]
    assert last["calls"] == second["calls"]

    for earlier, later in (
        (first["bodies"][0], first["bodies"][-1]),
        (second["bodies"][0], second["bodies"][-1]),
        (first["bodies"][-1], last["bodies"][0]),
    ):
        assert sent_messages(later).startswith(sent_messages(earlier))
        assert len(sent_messages(later)) > len(sent_messages(earlier))

    # The provider that made the calls receives its own names for them, and stable ones for the other provider's.
    request_messages = json.loads(last["bodies"][0])["messages"]
    blocks = [block for message in request_messages for block in message["content"] if isinstance(block, dict)]
    called = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert called[:3] == ["toolu_1", "toolu_2", "toolu_3"]
    assert len(called) == 4
    assert sorted(answered) == sorted(called)
