"""Hostile counts: in a usage of any wire they are marked or refused, and never become a part of a sum."""

import json
import logging
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.registry import adapter_class
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.pricing import price_table
from tests.laws.hardening.wires import WIRES, WireTemplate
from tests.unit.pricing.tables import NOW

HOSTILE = [
    b"-1",
    b"-1e3",
    b"1.5",
    b'"12"',
    b"true",
    b"1e400",
    b"10000000000000",
    b"9" * 50,
    b"[]",
    b"{}",
    b"NaN",
    b"[5]",
]
MODELS = {
    "anthropic": "claude-sonnet-4-6",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-r-plus",
    "google": "gemini-2.5-flash",
    "ollama": "qwen3:4b",
    "openai": "gpt-4.1",
    "openai-chat": "gpt-4.1",
}
"""One with a full price for each wire."""
_SLOT = "@hostile@"

OBJECTS = [wire for wire in WIRES if "usage" in wire.whole.lower()]
"""Wires whose counts are in an object of their own; Ollama's are next to everything else."""

every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Each of them would be a warning."""
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of counts in a reply: every number below a usage, and those that end in ``_count``."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        counted = any("usage" in str(step).lower() for step in path) or str(key).endswith("_count")
        if type(value) is int and counted:
            yield (*path, key)
        yield from places(value, (*path, key))


def replace_count(reply: Any, path: tuple[Any, ...], value: bytes) -> bytes:
    copy = deepcopy(reply)
    node = copy
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = _SLOT
    return json.dumps(copy).encode().replace(b'"%s"' % _SLOT.encode(), value)


def read(wire: WireTemplate, body: bytes) -> Message:
    adapter = adapter_class(wire.provider)(MODELS[wire.provider])
    context = RequestContext(
        model=f"{wire.provider}:{MODELS[wire.provider]}", prices=price_table(), new_id=lambda: "id", clock=lambda: NOW
    )
    return adapter.from_wire_response(WireResponse(200, body), context)


@every_wire
def test_a_hostile_count_is_never_summed(wire: WireTemplate) -> None:
    """In any place: the other counts stay, this one is ignored, and the cost is not exact."""
    whole = json.loads(wire.reply("text", b'"hi"'))
    sound = read(wire, json.dumps(whole).encode()).usage
    assert isinstance(sound, Usage)
    found = list(places(whole))
    assert len(found) >= 2
    for path in found:
        for value in HOSTILE:
            try:
                message = read(wire, replace_count(whole, path, value))
            except MalformedReplyError:
                continue
            assert message.text == "hi"
            usage = message.usage
            if usage is None:  # without the prompt's count it is not usage
                continue
            assert usage.total_tokens <= sound.total_tokens
            assert usage.unread, (path, value)
            if usage.cost_status is not CostStatus.FREE:
                assert usage.cost_status in (CostStatus.PARTIAL, CostStatus.UNPRICED)
            assert usage.cost_usd is None or usage.cost_usd <= (sound.cost_usd or 0)


@pytest.mark.parametrize("wire", OBJECTS, ids=lambda wire: wire.provider)
def test_an_invalid_usage_leaves_the_cost_unknown(wire: WireTemplate) -> None:
    """A text, a list, a number, null: the reply is there, and its cost is unknown."""
    whole = json.loads(wire.reply("text", b'"hi"'))
    name = next(key for key in whole if "usage" in key.lower())
    for value in (b'"free"', b"[]", b"[1]", b"7", b"null", b"{}", b"true"):
        usage = read(wire, replace_count(whole, (name,), value)).usage
        assert usage is None or (usage.cost_usd is None and usage.cost_status is CostStatus.UNPRICED), value
