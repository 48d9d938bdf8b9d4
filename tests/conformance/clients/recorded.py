"""Requests of real clients, recorded next to the checkout.

The folder is ``shared/clients`` next to the checkout, or DRAGOMAN_CLIENTS. It holds one ``<client>.jsonl`` per client.
The recorder cut long texts and lists, and marked the place.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "DRAGOMAN_CLIENTS"
_NEXT = Path(__file__).resolve().parents[3].parent / "shared" / "clients"
_PATHS = {
    "anthropic": re.compile(r".*/messages"),
    "openai-chat": re.compile(r".*/chat/completions"),
    "openai": re.compile(r".*/responses"),
    "google": re.compile(r".*:(streamGenerateContent|generateContent)"),
    "ollama": re.compile(r".*/api/chat"),
}

STATEFUL = ("previous_response_id", "thread")
"""Fields of requests that continue from state on the server, and send only what is new."""


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """One request that asks for a reply. ``wire`` is the adapter of the client's wire, ``line`` its place in the
    file."""

    client: str
    line: int
    wire: str
    body: dict[str, Any]

    @property
    def is_stateful(self) -> bool:
        return any(name in self.body for name in STATEFUL)

    def __str__(self) -> str:
        return f"{self.client}:{self.line}"


def folder() -> Path | None:
    """Return the folder with the recorded requests; None if it is not here."""
    found = Path(os.environ.get(VARIABLE) or _NEXT)
    return found if found.is_dir() else None


def client_requests() -> Iterator[ClientRequest]:
    """All requests that ask for a reply. Skips the test if the folder is not here."""
    found = folder()
    if found is None:
        pytest.skip(f"the recorded requests of clients are not here: set {VARIABLE} to the folder that holds them")
    for file in sorted(found.glob("*.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            request = json.loads(line)
            body = _without_cuts(request.get("body"))
            wire = next((name for name, path in _PATHS.items() if path.fullmatch(request.get("path") or "")), None)
            if wire is not None and isinstance(body, dict) and body.keys() & {"messages", "input", "contents"}:
                yield ClientRequest(file.stem, number, wire, body)


def _without_cuts(value: Any) -> Any:
    """A body without the notes of the recorder on what it left out."""
    if isinstance(value, dict):
        return {key: _without_cuts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_cuts(item) for item in value if not (isinstance(item, dict) and "__cut__" in item)]
    return value
