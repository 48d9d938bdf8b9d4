"""The validators against what providers really accepted, and against bodies that were broken on purpose."""

import copy
import json
import re
from typing import Any

import pytest

from tests.conformance.scope import ADAPTERS, adapter_name, skip_reason
from tests.conformance.validators.google import NO_SIGNATURE
from tests.conformance.validators.requests import VALIDATORS
from tests.exchanges import RecordedExchange, load_or_skip

pytestmark = pytest.mark.exchanges

ACCEPTED = 0.99
"""The least share of accepted bodies without a fault. Replayed recordings hold a few that no provider ever saw."""

WITHOUT_RESULTS = ("google-interactions",)
"""Providers of which no recorded request holds both a call and its result."""

_FAULTS_OF_SOME_MODELS = ("is not a parameter", "the last message is the assistant's")


@pytest.fixture(params=list(ADAPTERS))
def accepted(request: pytest.FixtureRequest) -> list[RecordedExchange]:
    """Every request that one provider answered with status 200."""
    return [
        exchange
        for exchange in load_or_skip(request.param)
        if exchange.request is not None and exchange.status == 200 and skip_reason(exchange) is None
    ]


def _faults(adapter: str, body: dict[str, Any]) -> list[str]:
    """Faults that hold for any model of the provider."""
    found = VALIDATORS[adapter](body, foreign=False)
    return [fault for fault in found if not any(mark in fault for mark in _FAULTS_OF_SOME_MODELS)]


def test_accepted_requests_have_no_fault(accepted: list[RecordedExchange]) -> None:
    """The rules are those of the provider, not stricter ones."""
    judged = {exchange.id: _faults(adapter_name(exchange), exchange.request) for exchange in accepted}
    faulty = {exchange: faults for exchange, faults in judged.items() if faults}
    assert 1 - len(faulty) / len(accepted) >= ACCEPTED, faulty


def test_a_missing_result_is_a_fault(accepted: list[RecordedExchange]) -> None:
    """An unanswered call fails on every wire."""
    tried = 0
    for exchange in accepted:
        broken = _without_results(exchange.request)
        if broken is not None and not _faults(adapter_name(exchange), exchange.request):
            tried += 1
            assert _faults(adapter_name(exchange), broken), exchange.id
    assert tried or accepted[0].provider in WITHOUT_RESULTS


def test_issuer_bound_content_is_a_fault_elsewhere(accepted: list[RecordedExchange]) -> None:
    """Thinking that is sent back passes as the provider's own, and fails as another's."""
    replayed = [
        exchange for exchange in accepted if "thinking_replay" in exchange.features and not _signs_for_others(exchange)
    ]
    for exchange in replayed:
        faults = list(VALIDATORS[adapter_name(exchange)](exchange.request, foreign=True))
        assert any("foreign" in fault for fault in faults), exchange.id


def _signs_for_others(exchange: RecordedExchange) -> bool:
    """Whether all signatures in a request are the placeholder for calls of another provider."""
    found = re.findall(r'"thought_?[sS]ignature": "([^"]*)"', json.dumps(exchange.request))
    return bool(found) and set(found) == {NO_SIGNATURE}


_STORED_HISTORY = ("previous_response_id", "previous_interaction_id", "conversation")
_RESULTS = ("function_call_output", "function_result")


def _is_result(part: dict[str, Any]) -> bool:
    return part.get("type") == "tool_result" or "toolResult" in part


def _without_results(body: dict[str, Any]) -> dict[str, Any] | None:
    """The body without its tool results; None if it has none, or if the provider stores their calls."""
    broken = copy.deepcopy(body)
    if "input" in broken:
        if not isinstance(broken["input"], list) or any(name in broken for name in _STORED_HISTORY):
            return None
        broken["input"] = [item for item in broken["input"] if item.get("type") not in _RESULTS]
    elif "contents" in broken:
        for content in broken["contents"]:
            parts = content.get("parts")
            kept = [part for part in parts or () if not {"functionResponse", "function_response"} & part.keys()]
            content["parts"] = kept if isinstance(parts, list) else parts
        broken["contents"] = [content for content in broken["contents"] if content["parts"]]
    else:
        messages = [message for message in broken["messages"] if message["role"] != "tool"]
        for message in messages:
            if isinstance(message.get("content"), list):
                message["content"] = [part for part in message["content"] if not _is_result(part)]
        broken["messages"] = [
            message for message in messages if message.get("content") != [] or message.get("tool_calls")
        ]
    return broken if broken != body else None
