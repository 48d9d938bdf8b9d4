"""No text of a provider or a user begins a line of a log, in any logger of the library and the gateway."""

import io
import json
import logging
import pickle
import re
from pathlib import Path

import pytest

import dragoman
import dragoman_gateway
from dragoman.adapter.errors import RateLimitError
from dragoman.events.bus import EventBus
from dragoman.events.json_lines import JsonLines, read_json_lines
from dragoman.logs import get_logger
from tests.laws.hardening.payloads import PAYLOADS
from tests.unit.events.payloads import PAYLOADS as EVENTS

FORGED = "2026-11-24 00:00:00 ERROR the key is revoked"
HOSTILE = f"a\x1b]0;t\x07\x9b31m\u202e\u2028\x85\r\n{FORGED}"
_OWN = {"canonical/log.py", "cli/app.py", "testing/cassettes/file.py", "testing/conformance/suite.py"}
"""Files that get a logger for its handlers."""


def sources() -> dict[str, str]:
    roots = [Path(str(module.__file__)).parent for module in (dragoman, dragoman_gateway)]
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for root in roots
        for path in root.rglob("*.py")
    }


def test_every_logger_escapes() -> None:
    """A module gets its logger from one function. The gateway configures those of its server, too."""
    found = {name for name, text in sources().items() if "logging.getLogger(" in text}
    assert found == _OWN | {"server/logs.py", "server/process.py"}
    assert sum("get_logger(" in text for text in sources().values()) > 20


def written(text: str) -> list[str]:
    """The lines of a record with that text in its message, its arguments and its traceback."""
    logger, stream = get_logger("dragoman.test"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        raise ValueError(text)
    except ValueError as error:
        logger.warning("%s and %s of %d", text, error, 5)
        logger.warning("it failed: %r", text, exc_info=True)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue().removesuffix("\n").split("\n")


@pytest.mark.parametrize("batch", range(4))
def test_a_record_is_a_line_of_printable_characters(batch: int) -> None:
    """A traceback is indented."""
    for payload in [HOSTILE, *PAYLOADS][batch::4]:
        lines = written(payload)
        assert [line.startswith("WARNING ") for line in lines[:2]] == [True, True], payload
        assert all(line.startswith("  ") for line in lines[2:]), payload
        assert all(map(str.isprintable, lines)), payload


def test_a_usual_record_keeps_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    """Programs that group records read the format and the arguments."""
    with caplog.at_level(logging.WARNING, "dragoman.test"):
        get_logger("dragoman.test").warning("%s of %d", "Łódź", 5)
    (record,) = caplog.records
    assert (record.msg, record.args) == ("%s of %d", ("Łódź", 5))


def test_an_error_of_a_provider_is_one_line() -> None:
    """Its message, code and request id; ``message`` is as it came."""
    error = RateLimitError(HOSTILE, provider="openai", code=HOSTILE, request_id=HOSTILE, status=429)
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert str(each).isprintable()
        assert each.message == HOSTILE
    assert "status 429" in str(error)


def test_lines_of_events_hold_no_control_characters(tmp_path: Path) -> None:
    """They are escaped as JSON does, so readers get what was emitted."""
    path = tmp_path / "events.jsonl"
    with JsonLines(path) as lines, EventBus() as bus:
        bus.subscribe(lines)
        bus.emit(EVENTS[0], session_id=HOSTILE, turn_id="t")
    text = path.read_text(encoding="utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
    assert json.loads(text)["session_id"] == HOSTILE
    (event,) = read_json_lines(path)
    assert event.session_id == HOSTILE
