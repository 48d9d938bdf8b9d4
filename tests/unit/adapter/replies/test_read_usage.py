"""The usage of a whole reply that goes through as bytes is the one of its message, without the message."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from dragoman import DragomanError, RequestContext, Usage, WireResponse, get_adapter
from dragoman.bundled import bundled_path
from dragoman.testing.cassettes.file import load_exchanges
from tests.benchmarks.wires import WIRES

MODELS = {
    "chat": "openai-chat:gpt-5.2",
    "messages": "anthropic:claude-sonnet-4-6",
    "responses": "openai:gpt-5.2",
}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def read_both(model: str, response: WireResponse) -> tuple[Any, Any]:
    """Return the usage as the message has it, and as it is read alone; the class of an error in its place."""

    def attempt(whole: bool) -> Usage | type[DragomanError] | None:
        context = RequestContext.for_model(model, clock=lambda: NOW)
        adapter = get_adapter(model)
        try:
            if whole:
                return adapter.from_wire_response(response, context).usage
            return adapter.read_usage(response, context)
        except DragomanError as error:
            return type(error)

    return attempt(True), attempt(False)


def test_every_recorded_reply_gives_the_usage_of_its_message() -> None:
    """Each adapter reads the replies of all wires, so that it refuses the same ones."""
    seen, counted, differ = 0, 0, []
    for file in sorted(bundled_path("cassettes").rglob("*.yaml")):
        for exchange in load_exchanges(file.read_text(encoding="utf-8"))[1]:
            recorded = exchange.response
            response = WireResponse(recorded.status, recorded.body, recorded.headers)
            for model in MODELS.values():
                message, alone = read_both(model, response)
                seen, counted = seen + 1, counted + isinstance(alone, Usage)
                if message != alone:
                    differ.append((file.name, model, message, alone))
    assert not differ
    assert seen
    assert counted


def native(wire: str, **changes: Any) -> dict[str, Any]:
    return {**WIRES[wire].text_reply("Bern."), **changes}


@pytest.mark.parametrize("wire", MODELS)
def test_what_is_no_reply_is_refused_alike(wire: str) -> None:
    content = {"chat": "choices", "messages": "content", "responses": "output"}[wire]
    bodies = [
        {},
        [],
        {"error": {"message": "no", "type": "server_error"}},
        native(wire, **{content: None}),
        native(wire, **{content: [None]}),
        native(wire, **{content: {}}),
        native(wire, usage={"prompt_tokens": -1, "input_tokens": "many"}),
        native(wire, usage=None),
        native(wire, model="m" * 5000),
    ]
    for body in bodies:
        message, alone = read_both(MODELS[wire], WireResponse(200, json.dumps(body).encode()))
        assert message == alone, body
    for broken in (b"", b"{", b"<html>"):
        message, alone = read_both(MODELS[wire], WireResponse(200, broken))
        assert message == alone, broken


@pytest.mark.parametrize("wire", MODELS)
def test_a_failed_reply_raises_its_error(wire: str) -> None:
    message, alone = read_both(MODELS[wire], WireResponse(429, b'{"error": {"message": "slow", "type": "rate_limit"}}'))
    assert message is alone
    assert isinstance(alone, type)


def test_other_wires_read_the_whole_message() -> None:
    body = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Bern."}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}  # fmt: skip
    message, alone = read_both("google:gemini-3-pro", WireResponse(200, json.dumps([body]).encode()))
    assert message == alone
    assert alone.total_tokens == 5
