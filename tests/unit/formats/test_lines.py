"""Files with a conversation a line: in constant memory, with an error for each line that cannot be read."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dragoman.formats import read_lines
from dragoman.formats.detection import is_conversation
from dragoman.formats.reading import lines
from dragoman.formats.reading.lines import holds_conversations
from dragoman.formats.results import sidecar_path, write_sidecar
from tests.tables import each_row
from tests.unit.formats.importers.framework_samples import FRAMEWORK_SAMPLES
from tests.unit.formats.importers.samples import SAMPLES

_CHAT: Any = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]}


def _file(tmp_path: Path, *rows: bytes, name: str = "rows.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(b"\n".join(rows))
    return path


def test_a_line_that_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    """Half a line, a wrong encoding, another format, an empty line, a byte order mark and Windows' line ends."""
    good = json.dumps(_CHAT).encode()
    result = {"type": "tool_result", "tool_use_id": "t", "content": "a"}
    anthropic = json.dumps({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": [result]}]}).encode()
    rows = (b"\xef\xbb\xbf" + good + b"\r", b"", good[:20], b'{"messages": "\xff"}', b'{"a": 1}', anthropic, good)
    found = list(read_lines(_file(tmp_path, *rows)))
    assert [line.number for line in found] == [1, 3, 4, 5, 6, 7]
    assert [line.error is None for line in found] == [True, False, False, False, True, True]
    assert "not valid JSON" in str(found[1].error)
    assert "the format is unknown" in str(found[3].error)
    assert found[4].conversations[0].messages[0].tool_results
    assert found[-1].position == (tmp_path / "rows.jsonl").stat().st_size
    assert [len(line.conversations) for line in found if line.error is None] == [1, 1, 1]


def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer one is an error, is never held whole, and the next line is read."""
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 200)
    monkeypatch.setattr(lines, "_CHUNK", 64)
    good = json.dumps(_CHAT).encode()
    for length in (201, 264, 265, 500):
        long = b'"' + b"a" * (length - 2) + b'"'
        found = list(read_lines(_file(tmp_path, good, long, good)))
        assert [line.error is None for line in found] == [True, False, True], length
        assert "at most 200 bytes" in str(found[1].error)
        assert found[-1].position == len(good) * 2 + length + 2


@pytest.mark.exhaustive
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Ten times the lines need the same."""
    row = json.dumps({"messages": _CHAT["messages"] * 20}).encode()
    peaks = []
    for count in (20, 200):
        path = _file(tmp_path, *[row] * count, name=f"{count}.jsonl")
        tracemalloc.start()
        assert sum(len(line.conversations) for line in read_lines(path, "openai-chat")) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5


def test_labels_hold_for_each_line(tmp_path: Path) -> None:
    path = _file(tmp_path, *[json.dumps(_CHAT).encode()] * 2)
    sidecar_path(path).write_bytes(write_sidecar(frozenset({"secret"})))
    found = [message for line in read_lines(path) for each in line.conversations for message in each.messages]
    assert [message.metadata.labels for message in found] == [frozenset({"secret"})] * 4


_STEPS = ("vercel-ui", "vercel-model", "claude-code", "codex", "otel", "openinference", "haystack", "autogen",
          "harmony", "llama-index messages", "langsmith", "llm-json rows")  # fmt: skip


@each_row("name", [*SAMPLES, *FRAMEWORK_SAMPLES])
def test_a_conversation_is_told_from_its_steps(name: str, tmp_path: Path) -> None:
    """An object of a format is a conversation, or a message, an event or a span of one."""
    _, document = {**SAMPLES, **FRAMEWORK_SAMPLES}[name]
    first = document[0] if isinstance(document, list) else document
    assert is_conversation(first) == (name not in _STEPS)
    path = _file(tmp_path, b"", b'{"half', json.dumps(first).encode())
    assert holds_conversations(path) == (name not in _STEPS)


def test_a_json_file_is_no_file_of_lines(tmp_path: Path) -> None:
    """Unless it has a second line with a value of its own."""
    row = json.dumps(_CHAT).encode()
    assert not holds_conversations(_file(tmp_path, row, name="a.json"))
    assert not holds_conversations(_file(tmp_path, json.dumps(_CHAT, indent=1).encode(), name="a.json"))
    assert holds_conversations(_file(tmp_path, row, row, name="a.json"))
    assert not holds_conversations(_file(tmp_path, b"", name="a.jsonl"))
