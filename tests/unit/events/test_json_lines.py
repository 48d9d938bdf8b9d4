"""Events in a file, one line each."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.events import Event, EventBus, JsonLines, read_json_lines
from tests.unit.events.payloads import FAILED, PAYLOADS, STARTED


def test_written_events_are_read_again(tmp_path: Path) -> None:
    """All, in order; a second program appends."""
    path = tmp_path / "events.jsonl"
    seen: list[Event] = []
    for _ in range(2):
        with JsonLines(path) as lines, EventBus(strict=True) as bus:
            bus.subscribe(lines)
            bus.subscribe(seen.append)
            for payload in PAYLOADS:
                bus.emit(payload, session_id="sess_é", turn_id="t")
    assert list(read_json_lines(path)) == seen
    assert len(seen) == 2 * len(PAYLOADS)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Events may be private."""
    JsonLines(tmp_path / "events.jsonl").close()
    assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == 0o600


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    """Each is written in one call, at the end of the file."""
    path = tmp_path / "events.jsonl"

    def write(number: int) -> None:
        with JsonLines(path) as lines, EventBus(strict=True) as bus:
            bus.subscribe(lines)
            for _ in range(50):
                bus.emit(STARTED, session_id=f"s{number}" * 200)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(list(read_json_lines(path))) == 200


def test_a_partial_last_line_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A crash costs that one event."""
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as lines, EventBus(strict=True) as bus:
        bus.subscribe(lines)
        bus.emit(STARTED, session_id="s")
        bus.emit(FAILED, session_id="s")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] + b"\n\n" + whole)
    assert [event.type for event in read_json_lines(path)] == [STARTED.type, STARTED.type, FAILED.type]
    assert "line 2 of" in caplog.text


def test_a_closed_file_is_not_written_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The handler fails like any other; closing twice is not an error."""
    lines = JsonLines(tmp_path / "events.jsonl")
    lines.close()
    lines.close()
    with EventBus(strict=True) as bus:
        bus.subscribe(lines)
        bus.emit(STARTED, session_id="s")
    assert "the file of events is closed" in caplog.text


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could not be written whole is reported."""
    received: list[Event] = []
    with EventBus(strict=True) as bus:
        bus.subscribe(received.append)
        bus.emit(STARTED, session_id="s")
    with JsonLines(tmp_path / "events.jsonl") as lines:
        monkeypatch.setattr(os, "write", lambda file, data: 5)
        with pytest.raises(OSError, match="only 5 of"):
            lines(received[0])
