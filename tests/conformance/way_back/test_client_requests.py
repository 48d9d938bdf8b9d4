"""Requests of real clients, recorded next to the checkout: each is read, with results for its calls, and always alike.

The folder is ``shared/clients`` next to the checkout, or DRAGOMAN_CLIENTS. It holds one ``<client>.jsonl`` per client.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.state_keys import StateMemory
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from tests.conformance.way_back.pairs import KEYS

VARIABLE = "DRAGOMAN_CLIENTS"
BEHIND = "mistral:mistral-large-latest"
_NEXT = Path(__file__).resolve().parents[3].parent / "shared" / "clients"
_PATHS = {
    "anthropic": re.compile(r".*/messages"),
    "openai-chat": re.compile(r".*/chat/completions"),
    "openai": re.compile(r".*/responses"),
    "google": re.compile(r".*:(streamGenerateContent|generateContent)"),
    "ollama": re.compile(r".*/api/chat"),
}
_STATEFUL = ("previous_response_id", "thread")
"""Fields of requests that continue from state on the server, and send only what is new."""


def client_requests() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The client, the adapter of its wire, and the body of each request that asks for a reply."""
    folder = Path(os.environ.get(VARIABLE) or _NEXT)
    if not folder.is_dir():
        pytest.skip(f"the recorded requests of clients are not here: set {VARIABLE} to the folder that holds them")
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            request = json.loads(line)
            body = _without_cuts(request.get("body"))
            wire = next((name for name, path in _PATHS.items() if path.fullmatch(request.get("path") or "")), None)
            if wire is not None and isinstance(body, dict) and body.keys() & {"messages", "input", "contents"}:
                yield file.stem, wire, body


def _without_cuts(value: Any) -> Any:
    """A body without the notes of the recorder on what it left out."""
    if isinstance(value, dict):
        return {key: _without_cuts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_cuts(item) for item in value if not (isinstance(item, dict) and "__cut__" in item)]
    return value


def read(wire: str, body: dict[str, Any]) -> tuple[list[str], list[str], bytes, bytes, RequestContext]:
    """The ids of the calls and of the results, the digest of the history, and the request to the provider behind."""
    context = RequestContext.for_model(
        BEHIND, state_sealer=KEYS, state_store=StateMemory(), tool_ids=ClientToolIds(), prices=None
    )
    messages, tools, _ = get_adapter(f"{wire}:client").from_wire_request(json.dumps(body).encode(), context)
    blocks = [block for message in messages for block in message.content]
    calls = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
    results = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
    request = get_adapter(BEHIND).to_wire(messages, tools, AdapterOptions(context=context))
    return calls, results, context.history_digest, request.body, context


def test_every_request_of_a_client_is_read_alike() -> None:
    """By two processes: the same ids, the same digest for sealed state, and the same bytes for the provider behind."""
    read_requests = 0
    for client, wire, body in client_requests():
        calls, results, digest, request, context = read(wire, body)
        assert read(wire, body)[:4] == (calls, results, digest, request), client
        assert context.losses == [], client
        read_requests += 1
    assert read_requests > 100


def test_each_result_belongs_to_a_call() -> None:
    """Unless the client sends only what is new, or leaves the calls out, as LiteLLM does on Ollama's wire."""
    for client, wire, body in client_requests():
        if (client, wire) == ("litellm", "ollama") or any(name in body for name in _STATEFUL):
            continue
        calls, results, *_ = read(wire, body)
        assert set(results) <= set(calls), client


def test_a_shorter_history_has_the_same_ids() -> None:
    """So that the prefix for the provider behind stays the same while a client goes on."""
    cut = 0
    for client, wire, body in client_requests():
        field = next(name for name in ("messages", "input", "contents") if name in body)
        if not isinstance(body[field], list) or any(name in body for name in _STATEFUL):
            continue
        calls, *_ = read(wire, body)
        for end in range(1, len(body[field]) if calls else 0):
            shorter, *_ = read(wire, {**body, field: body[field][:end]})
            assert calls[: len(shorter)] == shorter, client
            cut += 1
    assert cut > 50
