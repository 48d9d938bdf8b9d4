"""Requests of real clients: each is read, with results for its calls, and always alike."""

import json
from typing import Any

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.state_keys import StateMemory
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from tests.conformance.clients.recorded import client_requests
from tests.conformance.way_back.pairs import KEYS

BEHIND = "mistral:mistral-large-latest"


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
    """Every request of a client is read alike by two processes: the same ids, the same digest for sealed state, and the
    same bytes for the provider behind.
    """
    read_requests = 0
    for recorded in client_requests():
        client, wire, body = recorded.client, recorded.wire, recorded.body
        calls, results, digest, request, context = read(wire, body)
        assert read(wire, body)[:4] == (calls, results, digest, request), client
        assert {loss.kind for loss in context.losses} <= {"option"}, client
        read_requests += 1
    assert read_requests > 100


def test_each_result_belongs_to_a_call() -> None:
    """Unless the client sends only what is new, or leaves the calls out, as LiteLLM does on Ollama's wire."""
    for recorded in client_requests():
        client, wire, body = recorded.client, recorded.wire, recorded.body
        if (client, wire) == ("litellm", "ollama") or recorded.is_stateful:
            continue
        calls, results, *_ = read(wire, body)
        assert set(results) <= set(calls), client


def test_a_shorter_history_has_the_same_ids() -> None:
    """The prefix for the provider behind stays the same while a client goes on."""
    cut = 0
    for recorded in client_requests():
        client, wire, body = recorded.client, recorded.wire, recorded.body
        field = next(name for name in ("messages", "input", "contents") if name in body)
        if not isinstance(body[field], list) or recorded.is_stateful:
            continue
        calls, *_ = read(wire, body)
        for end in range(1, len(body[field]) if calls else 0):
            shorter, *_ = read(wire, {**body, field: body[field][:end]})
            assert calls[: len(shorter)] == shorter, client
            cut += 1
    assert cut > 50
