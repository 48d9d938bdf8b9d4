"""The names that leave the process: the current ones, the kept ones, and their differences."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.compatibility.frozen import from_files, from_schemas, from_sessions, from_source, from_surfaces

FOLDER = Path(__file__).parent / "kept"
COMMAND = f"uv run python -m {__package__}"

KINDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "bulk_runs": from_files.bulk_runs,
    "cassettes": from_files.cassettes,
    "codes": from_source.codes,
    "commands": from_surfaces.commands,
    "conformance_laws": from_surfaces.laws,
    "cost_report": from_sessions.cost_report,
    "documents": from_schemas.documents,
    "entry_points": from_surfaces.entry_points,
    "environment": from_source.environment,
    "event_envelopes": from_sessions.event_envelopes,
    "events": from_schemas.events,
    "exported_replies": from_sessions.exported_replies,
    "formats_read": from_schemas.formats,
    "formats_written": from_files.written_formats,
    "log_fields": from_source.log_fields,
    "loggers": from_source.loggers,
    "own_words": from_source.own_words,
    "page": from_files.page_names,
    "policy": from_surfaces.policy,
    "policy_agent": from_files.policy_agent,
    "pytest_plugin": from_surfaces.pytest_plugin,
    "request_headers": from_files.headers,
    "session_dump": from_sessions.session_dump,
    "shared_limits": from_files.shared_limits,
    "store": from_sessions.store,
    "store_lines": from_sessions.store_lines,
    "telemetry": from_sessions.telemetry,
    "toml": from_schemas.toml,
}
"""What collects the names of a kind, by the name of its file."""


def collect(kind: str) -> list[str]:
    """The current names of a kind, sorted."""
    with _quiet():
        return sorted(set(KINDS[kind]()))


def read(kind: str) -> list[str]:
    """The kept names of a kind."""
    kept: list[str] = json.loads(_file(kind).read_bytes())
    return kept


def write(kind: str, names: Iterable[str]) -> Path:
    """Keeps the names of a kind, one per line."""
    file = _file(kind)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(sorted(names), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def differences(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """What was removed, then what was added."""
    old, new = set(before), set(now)
    return [*(f"- {name}" for name in sorted(old - new)), *(f"+ {name}" for name in sorted(new - old))]


def _file(kind: str) -> Path:
    return FOLDER / f"{kind}.json"


@contextmanager
def _quiet() -> Iterator[None]:
    """Losses and failures inside the collectors are expected."""
    logger = logging.getLogger(from_source.DISTRIBUTION)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
