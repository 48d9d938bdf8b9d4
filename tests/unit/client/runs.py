"""Policies, and runs under a client."""

from pathlib import Path
from typing import Any

from dragoman import Client, Store
from dragoman.bulk import BulkReport
from dragoman.policy import Pipeline
from tests.unit.client.governed_provider import MODEL, PROMPTS
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RedactingPlugin

DENY = {"policy": Pipeline([DenyingPlugin(SECRET)])}
REDACT = {"policy": Pipeline([RedactingPlugin(SECRET)])}


def store_in(folder: Path) -> Store:
    return Store(f"sqlite:///{folder}/chats.db")


def texts(report: BulkReport) -> list[str]:
    """The answers and errors alone: a row of the output also has its prompt, forbidden word included."""
    with report:
        return [row["answer"] or row["error"] for row in report]


def run_bulk(settings: dict[str, Any], folder: Path, **others: Any) -> list[str]:
    rows = [{"prompt": prompt} for prompt in PROMPTS]
    others.setdefault("manifest", folder / "manifest")
    with Client(**settings) as client:
        return texts(client.bulk(rows, MODEL, **others))
