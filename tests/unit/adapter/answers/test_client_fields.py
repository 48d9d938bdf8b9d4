"""Fields of a client's request that only the client's wire has."""

import json
from typing import Any

from dragoman import RequestContext, get_adapter
from dragoman.answers import ClientToolIds
from tests.tables import each_row

MESSAGES: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES: dict[str, Any] = {"model": "m", "input": "Hi"}
GOOGLE: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
OLLAMA: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def lost(wire: str, body: dict[str, Any], model: str = "mistral:mistral-large-latest") -> dict[str, str]:
    """The paths and severities of the fields that are lost."""
    context = RequestContext.for_model(model, tool_ids=ClientToolIds(), prices=None)
    get_adapter(f"{wire}:client").from_wire_request(json.dumps(body), context)
    return {loss.reason.partition(":")[0]: loss.severity.value for loss in context.losses}


ROWS: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    ("anthropic", MESSAGES, {}),
    ("anthropic", MESSAGES | {"container": "c"}, {"container": "warning"}),
    ("anthropic", MESSAGES | {"context_management": {"edits": []}}, {"context_management": "info"}),
    ("anthropic", MESSAGES | {"thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": 1}, {}),
    ("anthropic", MESSAGES | {"metadata": {"user_id": "u", "team": "t"}}, {"metadata.team": "warning"}),
    ("openai-chat", CHAT | {"logit_bias": {"1": 2}, "n": 1, "stream_options": {}}, {"logit_bias": "warning"}),
    ("openai-chat", CHAT | {"n": 2}, {}),
    ("openai-chat", CHAT | {"max_tokens": 5, "seed": 1, "prompt_cache_key": "k"}, {"prompt_cache_key": "info"}),
    ("openai", RESPONSES | {"store": False, "include": ["x"], "truncation": "disabled"}, {}),
    ("openai", RESPONSES | {"truncation": "auto", "max_tool_calls": 3},
     {"truncation": "warning", "max_tool_calls": "warning"}),
    ("google", GOOGLE | {"safetySettings": [], "generationConfig": {"candidateCount": 1, "temperature": 1}}, {}),
    ("google", GOOGLE | {"cachedContent": "cachedContents/1", "generationConfig": {"audioTimestamp": True}},
     {"cachedContent": "warning", "generationConfig.audioTimestamp": "warning"}),
    ("ollama", OLLAMA | {"options": {"mirostat": 1, "num_ctx": 9}, "raw": True},
     {"options.mirostat": "warning", "raw": "warning"}),
]  # fmt: skip


@each_row(("wire", "body", "expected"), ROWS)
def test_a_field_that_no_option_carries_is_a_loss(wire: str, body: dict[str, Any], expected: dict[str, str]) -> None:
    """A field that only tunes how a provider serves the request is of the severity info."""
    assert lost(wire, body) == expected


def test_nothing_is_lost_if_the_wire_s_own_provider_answers() -> None:
    """It gets the fields as they are."""
    assert lost("anthropic", MESSAGES | {"container": "c"}, "anthropic:claude-sonnet-4-5") == {}
