"""What each library makes of the histories that are written for it: accepted, understood alike, and sent."""

import base64
import json
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from dragoman import Message
from dragoman.formats import from_llm_logs
from dragoman.formats.registry import get_format
from tests.conformance.formats.neutral_turns import turns_of
from tests.conformance.formats.peers.environments import interpreter

_HERE = Path(__file__).parent
_WIRES = {"anthropic": "messages", "google": "google", "google-vertex": "google", "openai": "responses"}
"""The wire of the provider that spoke last; all others get Chat Completions."""


@dataclass(slots=True)
class PeerRow:
    """``unsent`` counts the reasons why the library cannot send an accepted history, by a pattern of unsent.toml."""

    library: str
    tried: int = 0
    accepted: int = 0
    sent: int = 0
    unsent: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def check_peer(library: str, histories: Iterable[tuple[str, list[Message]]], folder: Path) -> PeerRow:
    """Write each history for the library, and let its own code load and send it. Raises OSError if it is missing."""
    python = interpreter(library, folder)
    if python is None:
        raise FileNotFoundError(f"{library} is not installed in {folder}")
    row = PeerRow(library)
    written: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        documents, answers = Path(work, "documents.jsonl"), Path(work, "answers.jsonl")
        with documents.open("w", encoding="utf-8") as lines:
            for name, history in histories:
                data = _write(library, history)
                written[name] = data
                lines.write(json.dumps({"name": name, "wire": _wire(history), "data": data}) + "\n")
        with documents.open(encoding="utf-8") as given, answers.open("w", encoding="utf-8") as taken:
            command = [str(python), "-I", str(_HERE / "programs.py"), library]
            subprocess.run(command, stdin=given, stdout=taken, check=True, cwd=work)
        for answer in map(json.loads, answers.read_text(encoding="utf-8").splitlines()):
            _judge(row, answer, written[answer["name"]])
    if row.tried != len(written):
        row.faults.append(f"{library}: {row.tried} answers to {len(written)} documents")
    return row


def _write(library: str, history: Sequence[Message]) -> Any:
    write = get_format(library).write
    assert write is not None
    data = write(history, None).data
    return base64.b64encode(data).decode() if isinstance(data, bytes) else data


def _wire(history: Sequence[Message]) -> str:
    named = (message.metadata.model or "" for message in reversed(history))
    provider = next((name.partition(":")[0] for name in named if name), "")
    return _WIRES.get(provider, "chat")


def _judge(row: PeerRow, answer: dict[str, Any], data: Any) -> None:
    name = f"{row.library} {answer['name']}"
    row.tried += 1
    if "refused" in answer:
        row.faults.append(f"{name}: refused, {answer['refused']}")
        return
    row.accepted += 1
    if "unsent" in answer:
        reason = next((pattern for pattern in _reasons() if pattern in answer["unsent"]), None)
        row.unsent[reason or answer["unsent"]] += 1
        if reason is None:
            row.faults.append(f"{name}: not sent, {answer['unsent']}")
        return
    row.sent += 1
    ours = _turns(row.library, data)
    if answer["again"] is not None and _turns(row.library, answer["again"]) != ours:
        row.faults.append(f"{name}: the library's own copy says something else")
    if "continued" in answer and _turns(row.library, answer["continued"])[: len(ours) - 1] != ours[:-1]:
        row.faults.append(f"{name}: the continued log says something else")


def _turns(library: str, data: Any) -> list[dict[str, Any]]:
    """Return a document in neutral terms, as Dragoman reads it."""
    if library != "llm":
        read = get_format(library).read
        assert read is not None
        return turns_of(read(data, None))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.db")
        path.write_bytes(base64.b64decode(data))
        return turns_of(from_llm_logs(path)[0].messages)


@cache
def _reasons() -> dict[str, str]:
    return dict(tomllib.loads((_HERE / "unsent.toml").read_text(encoding="utf-8"))["reasons"])


def iterate_lines(row: PeerRow) -> Iterator[str]:
    """Yield the lines of a report."""
    yield f"{row.library:<16}{row.tried:>6} written{row.accepted:>6} accepted{row.sent:>6} sent"
    for reason, count in row.unsent.most_common():
        yield f"{'':<16}{count:>6} not sent: {_reasons().get(reason, reason)}"
