"""A part that was read before is read as if it came for the first time."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from operator import is_
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.answers import ClientToolIds, SharedEncodeCache, StateKeys
from dragoman.errors import DragomanError
from dragoman_gateway.bodies import repeated
from dragoman_gateway.bodies.repeated import KeptBody, RepeatedParts
from dragoman_gateway.json import loads_request
from tests.gateway.repeated import requests
from tests.gateway.repeated.requests import (
    PROVIDERS,
    changed,
    clients_folder,
    growing,
    recorded_clients,
    recorded_requests,
)

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TARGETS = {
    "messages": "openai-chat:gpt-5.2", "chat": "anthropic:claude-sonnet-4-6", "responses": "google:gemini-3-pro",
    "google": "anthropic:claude-sonnet-4-6", "ollama": "openai:gpt-5.2",
}  # fmt: skip
_SECRETS = StateKeys({"one": b"s" * 64})


@pytest.fixture(autouse=True)
def _keep_small_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "SMALLEST", 0)


def _context(model: str, **fields: Any) -> RequestContext:
    numbers = count()
    return RequestContext(
        model=model, session_id="ses_1", request_id="req_1", new_id=lambda: f"msg_{next(numbers)}", clock=lambda: NOW,
        **fields,
    )  # fmt: skip


def _read(wire: str, fields: dict[str, Any], kept: KeptBody | None) -> list[Any]:
    """All that the gateway, its policies, its stores and the provider of another wire see of a request."""
    client = get_adapter(f"{PROVIDERS[wire]}:{fields.get('model', 'gemini-3-pro')}")
    context = _context(TARGETS[wire], tool_ids=ClientToolIds(), state_sealer=_SECRETS)
    if kept is not None:
        context.kept_history = kept.decoded
        context.kept_tools = kept.field("tools")
    try:
        messages, tools, options = client.from_wire_request(fields, context)
    except DragomanError as error:
        return [type(error), str(error)]
    seen = [
        [each.model_dump() for each in messages], [each.model_dump() for each in tools], context.tool_ids.dump(),
        context.history_digest, context.losses, context.client_fields, replace(options, context=None),
    ]  # fmt: skip
    target = get_adapter(TARGETS[wire])
    sending = _context(TARGETS[wire], tool_ids=context.tool_ids)
    sending.encode_cache = SharedEncodeCache() if kept is None else kept.encodings
    try:
        request = target.to_wire(messages, tools, AdapterOptions(max_output_tokens=9, context=sending))
    except DragomanError as error:
        return [*seen, type(error), str(error)]
    losses = sorted(request.losses, key=repr)  # those of the part that was encoded before come first
    return [*seen, request.body, losses, request.headers, sending.tool_ids.dump(), sending.terms]


def _contents(kept: KeptBody) -> list[Any]:
    """The contents of the messages that are kept of a conversation."""
    decoded = kept.decoded.decoded
    return [] if decoded is None else [content for _, content, _, _ in decoded.messages]


def _check(wire: str, bodies: Iterable[dict[str, Any]], *, separators: Sequence[str] = (",", ":")) -> int:
    """Read the requests of one caller in both ways. Returns how many messages were not decoded again."""
    parts, known = RepeatedParts(64 * 1024 * 1024, 60), 0
    for fields in bodies:
        body = json.dumps(fields, ensure_ascii=False, separators=separators).encode()  # type: ignore[arg-type]
        found = parts.read("one", body)
        expected, has_large = loads_request(body)
        if found is None:
            assert has_large or not isinstance(expected.get(requests.history_of(wire)), list)
            continue
        assert found[0] == expected
        assert list(found[0]) == list(expected)
        repeated_before = _contents(found[1])
        for with_known, as_new in zip(_read(wire, *found), _read(wire, expected, None), strict=True):
            assert with_known == as_new
        known += sum(map(is_, repeated_before, _contents(found[1])))
        assert json.dumps(found[0]) == json.dumps(expected)  # nothing has changed what is shared
    return known


@pytest.mark.parametrize(("wire", "body"), requests.written_agents(), ids=PROVIDERS)
def test_a_request_is_read_the_same_with_what_is_known_of_it(wire: str, body: dict[str, Any]) -> None:
    """Messages, tools, ids, digests, losses and the bytes for another wire are the same, however a history grows."""
    assert _check(wire, [*growing(wire, body, 12), body], separators=(", ", ": ")) > 50


@pytest.mark.parametrize(("wire", "body"), requests.written_agents(), ids=PROVIDERS)
def test_a_request_that_changed_in_between_is_read_the_same(wire: str, body: dict[str, Any]) -> None:
    """Messages that are removed, repeated, marked, and fields in another order are not a surprise."""
    random_ = random.Random(48)
    bodies = [body]
    for _ in range(60):
        bodies.append(changed(wire, random_.choice([body, bodies[-1]]), random_))
    _check(wire, bodies)


def test_the_recorded_requests_of_clients_are_read_the_same() -> None:
    if not clients_folder().is_dir():
        pytest.skip(f"the recorded clients are not here: {requests.VARIABLE} names their folder")
    random_ = random.Random(7)
    for wire in PROVIDERS:
        own = [body for kind, body in recorded_clients() if kind == wire]
        assert own
        steps = [each for body in own for each in (*growing(wire, body, 3), changed(wire, body, random_), body)]
        _check(wire, steps)


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", PROVIDERS)
def test_the_recorded_exchanges_are_read_the_same(wire: str) -> None:
    bodies = recorded_requests(wire)
    _check(wire, (each for body in bodies for each in growing(wire, body, 2)))
