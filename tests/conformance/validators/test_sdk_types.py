"""The SDKs' types as validators: they accept what providers did, read lazy lists to the end, and forbid the rest."""

import copy
from typing import Any

import pytest

from tests.conformance.scope import ADAPTERS, skip_reason
from tests.conformance.swaps.matrix import MatrixCell, format_table, kinds
from tests.conformance.validators import sdk_types
from tests.exchanges import load_or_skip

ACCEPTED = {"anthropic": 0.93, "openai-responses": 0.8, "openai-chat": 0.9, "azure-openai": 0.7, "bedrock": 1.0}
"""The least share of accepted bodies that the types accept: the wires also take fields of previews, of replies that are
sent back whole, and lack fields that the types require.
"""

_HI = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"model": "m", "max_tokens": 1, "messages": _HI},
    "openai": {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
    "openai-chat": {"model": "m", "messages": _HI},
    "bedrock": {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
}  # fmt: skip


@pytest.mark.exchanges
@pytest.mark.parametrize("provider", list(ACCEPTED))
def test_the_types_accept_what_providers_accepted(provider: str) -> None:
    """They are the SDKs' own, so they refuse only fields of previews or of replies."""
    bodies = [
        exchange.request
        for exchange in load_or_skip(provider)
        if exchange.request is not None and exchange.status == 200 and skip_reason(exchange) is None
    ]
    taken = sum(not list(sdk_types.faults(ADAPTERS[provider], body)) for body in bodies)
    assert taken / len(bodies) >= ACCEPTED[provider]


@pytest.mark.parametrize("adapter", list(BODIES))
def test_an_undeclared_key_is_a_fault(adapter: str) -> None:
    """An undeclared key is a fault, also deep inside a list that the types leave lazy."""
    body = copy.deepcopy(BODIES[adapter])
    assert list(sdk_types.faults(adapter, body)) == []
    (message,) = body.get("messages") or body["input"]
    message["content"][0]["more"] = 1
    assert list(sdk_types.faults(adapter, body))


def test_ollamas_model_forbids_unknown_fields() -> None:
    """Its own configuration would ignore them."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert list(sdk_types.faults("ollama", body)) == []
    assert list(sdk_types.faults("ollama", body | {"tool_choice": "auto"})) == ["the SDK's type: no field tool_choice"]


def test_the_matrix_counts_rejections() -> None:
    """A row is a source, a column a target; the most frequent kinds of rejections have an example."""
    cells = [
        MatrixCell("a", "b", tried=3, rejected=2, faults=["a 1 -> b: id 1", "a 2 -> b: id 2"]),
        MatrixCell("a", "c", tried=3),
    ]
    assert format_table(cells).splitlines()[1].split() == ["a", "3", "2", "0"]
    assert format_table(cells).splitlines()[-1] == "6 requests of 2 pairs, 2 rejected"
    assert list(kinds(cells, 5)) == ["2 x a 1 -> b: id 1"]
