"""Fields of a client's request that only the client's wire has."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman import AdapterOptions, RequestContext, get_adapter
from dragoman.adapter.wirejson import assign_path, lookup_path
from dragoman.answers import ClientToolIds
from dragoman.errors import RequestError
from tests.tables import each_row

MESSAGES: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES: dict[str, Any] = {"model": "m", "input": "Hi"}
GOOGLE: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
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


ROWS += [
    ("openai-chat", CHAT | {"web_search_options": {}}, {"web_search_options": "warning"}),
    ("openai-chat", CHAT | {"top_k": 5}, {}),
    ("openai-chat", CHAT | {"logprobs": True, "top_logprobs": 2}, {"logprobs": "warning"}),
    ("openai", RESPONSES | {"include": ["message.output_text.logprobs"]}, {"logprobs": "warning"}),
    ("google", GOOGLE | {"generationConfig": {"responseLogprobs": True}}, {"logprobs": "warning"}),
    ("ollama", OLLAMA | {"logprobs": True}, {"logprobs": "warning"}),
    ("google", GOOGLE | {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
     {"safetySettings": "info"}),
]  # fmt: skip


ROWS += [
    ("openai-chat", CHAT | {"response_format": {"type": "text"}}, {}),
    ("openai-chat", CHAT | {"response_format": {"type": "grammar"}}, {"response_format.type": "warning"}),
    ("openai", RESPONSES | {"text": {"format": {"type": "text"}}}, {}),
    ("google", GOOGLE | {"generationConfig": {"responseMimeType": "text/plain"}}, {}),
    ("google", GOOGLE | {"generationConfig": {"responseMimeType": "text/x.enum", "responseSchema": {
        "type": "STRING", "enum": ["a"]}}}, {"generationConfig.responseMimeType": "warning"}),
]  # fmt: skip


@each_row(("wire", "body", "expected"), ROWS)
def test_a_field_that_no_option_carries_is_a_loss(wire: str, body: dict[str, Any], expected: dict[str, str]) -> None:
    """A field that only tunes how a provider serves the request is of the severity info."""
    assert lost(wire, body) == expected


def read(wire: str, body: dict[str, Any], model: str) -> AdapterOptions:
    context = RequestContext.for_model(model, tool_ids=ClientToolIds(), prices=None)
    return get_adapter(f"{wire}:client").from_wire_request(json.dumps(body), context)[2]


def test_a_number_that_clients_send_although_their_wire_lacks_it_is_an_option() -> None:
    """Many clients of Chat Completions send a top_k; its own provider gets it as it is."""
    assert read("openai-chat", CHAT | {"top_k": 5}, "google:gemini-3-pro-preview").top_k == 5
    own = read("openai-chat", CHAT | {"top_k": 5}, "openai-chat:gpt-4.1")
    assert (own.top_k, own.extra) == (None, {"openai-chat": {"top_k": 5}})


JSON_MODES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "openai-chat": (CHAT | {"response_format": {"type": "json_object"}}, "response_format", {"type": "json_object"}),
    "openai": (RESPONSES | {"text": {"format": {"type": "json_object"}}}, "text.format", {"type": "json_object"}),
    "google": (GOOGLE | {"generationConfig": {"responseMimeType": "application/json"}}, "generationConfig",
               {"responseMimeType": "application/json"}),
    "ollama": (OLLAMA | {"format": "json"}, "format", "json"),
}  # fmt: skip
"""A request for any JSON in each wire that has such a mode, and where it stands."""
MODELS = {"openai-chat": "gpt-4.1", "openai": "gpt-4.1", "google": "gemini-2.5-pro", "ollama": "qwen3"}


@pytest.mark.parametrize("behind", [*JSON_MODES, "anthropic", "mistral"])
@pytest.mark.parametrize("client", JSON_MODES)
def test_json_without_a_schema_is_asked_for_on_every_wire(client: str, behind: str) -> None:
    """A wire without a JSON mode, such as Messages, is asked in the prompt, with a loss."""
    body, path, own = JSON_MODES[client]
    model = get_adapter(f"{behind}:{MODELS.get(behind, 'm')}")
    context = RequestContext.for_model(str(model.model_id), tool_ids=ClientToolIds(), prices=None)
    messages, tools, options = get_adapter(f"{client}:client").from_wire_request(json.dumps(body), context)
    sent = model.to_wire(messages, tools, replace(options, context=context))
    asked = json.loads(sent.body)
    lost = [loss.reason for loss in (*context.losses, *sent.losses) if loss.kind == "option"]
    if behind == "anthropic":
        assert "JSON" in json.dumps(asked["system"])
        assert len(lost) == 1
    else:
        _, path, own = JSON_MODES.get(behind, JSON_MODES["openai-chat"])
        assert lookup_path(asked, path) == own
        assert lost == []


@each_row(
    ("wire", "body"),
    [("openai-chat", CHAT | {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
     ("openai", RESPONSES | {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
     ("anthropic", MESSAGES | {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
     ("google", GOOGLE | {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}})],
)  # fmt: skip
def test_a_schema_is_read_for_another_provider_whatever_the_client_s_model_has(wire: str, body: dict[str, Any]) -> None:
    """The client's name for the model may be one of its own provider that takes no schema."""
    older = {"openai-chat": "gpt-3.5-turbo", "openai": "gpt-3.5-turbo", "anthropic": "claude-3-haiku-20240307",
             "google": "gemini-1.0-pro"}  # fmt: skip
    context = RequestContext.for_model("mistral:mistral-large-latest", tool_ids=ClientToolIds(), prices=None)
    options = get_adapter(f"{wire}:{older[wire]}").from_wire_request(json.dumps(body), context)[2]
    assert options.output_schema == SCHEMA


@pytest.mark.parametrize(("wire", "body"), [("openai-chat", CHAT), ("openai", RESPONSES)])
def test_the_older_name_of_the_user_s_id_is_read(wire: str, body: dict[str, Any]) -> None:
    """The newer one counts if both are there."""
    assert read(wire, body | {"user": "u_1"}, "anthropic:claude-opus-4-8").user == "u_1"
    both = {"user": "u_1", "safety_identifier": "u_2"}
    assert read(wire, body | both, "anthropic:claude-opus-4-8").user == "u_2"


def test_log_probabilities_are_asked_of_the_wire_s_own_provider_only() -> None:
    """No other wire's reply gives them back, and some models refuse the question."""
    asked = CHAT | {"logprobs": True, "top_logprobs": 2}
    assert read("openai-chat", asked, "google:gemini-3-pro-preview").logprobs is None
    assert read("openai-chat", asked, "openai-chat:gpt-4.1").logprobs == 2


NUMBERS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("anthropic", MESSAGES, ["max_tokens", "temperature", "top_p", "top_k", "thinking.budget_tokens"]),
    ("openai-chat", CHAT, ["max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "n", "top_k",
                           "frequency_penalty", "presence_penalty"]),
    ("openai", RESPONSES, ["max_output_tokens", "temperature", "top_p"]),
    ("google", GOOGLE, [f"generationConfig.{name}" for name in (
        "maxOutputTokens", "temperature", "topP", "topK", "seed", "candidateCount", "frequencyPenalty",
        "presencePenalty", "thinkingConfig.thinkingBudget")]),
    ("ollama", OLLAMA, [f"options.{name}" for name in (
        "num_predict", "temperature", "top_p", "top_k", "seed", "num_ctx", "frequency_penalty", "presence_penalty")]),
]  # fmt: skip


@each_row(("wire", "body", "paths"), NUMBERS)
def test_a_number_of_another_type_is_the_client_s_mistake(wire: str, body: dict[str, Any], paths: list[str]) -> None:
    """SDKs repeat a request that gets a 500."""
    for path in paths:
        for value in ("ten", True, [1]):
            asked: dict[str, Any] = json.loads(json.dumps(body))
            assign_path(asked, path, value)
            with pytest.raises(RequestError, match=path.rpartition(".")[2]):
                read(wire, asked, "mistral:mistral-large-latest")


@each_row(
    ("wire", "body"),
    [("anthropic", MESSAGES | {"max_tokens": -1}), ("openai", RESPONSES | {"max_output_tokens": -1}),
     ("openai-chat", CHAT | {"max_completion_tokens": 1.5}),
     ("google", GOOGLE | {"generationConfig": {"maxOutputTokens": -1}})],
)  # fmt: skip
def test_an_output_limit_is_a_whole_number_that_is_not_negative(wire: str, body: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        read(wire, body, "mistral:mistral-large-latest")


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert read("openai-chat", CHAT | {"max_tokens": 10.0}, "mistral:mistral-large-latest").max_output_tokens == 10


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_no_limit_of_chat_completions(field: str) -> None:
    """Servers of local models read -1 so, and get it themselves."""
    body = CHAT | {field: -1}
    assert read("openai-chat", body, "mistral:mistral-large-latest").max_output_tokens is None
    assert read("openai-chat", body, "openai-chat:gpt-4.1").extra["openai-chat"] == {field: -1}


@pytest.mark.parametrize("value", [-1, -2])
def test_no_limit_is_no_number_of_tokens(value: int) -> None:
    """Ollama writes -1 for no limit and -2 for the rest of the window, and gets them itself."""
    body = OLLAMA | {"options": {"num_predict": value}}
    assert read("ollama", body, "mistral:mistral-large-latest").max_output_tokens is None
    assert lost("ollama", body) == {}
    assert read("ollama", body, "ollama:qwen3").extra["ollama"]["options"] == {"num_predict": value}


@pytest.mark.parametrize(("budget", "thinking", "left"), [(-1, True, None), (0, False, None), (128, None, 128)])
def test_a_budget_of_gemini_may_be_a_switch(budget: int, thinking: bool | None, left: int | None) -> None:
    """-1 leaves the amount to the model, and 0 switches thinking off."""
    body = GOOGLE | {"generationConfig": {"thinkingConfig": {"thinkingBudget": budget}}}
    options = read("google", body, "anthropic:claude-opus-4-8")
    assert (options.thinking, options.thinking_budget) == (thinking, left)
    assert read("google", body, "google:gemini-2.5-pro").thinking_budget == budget


def test_nothing_is_lost_if_the_wire_s_own_provider_answers() -> None:
    """It gets the fields as they are."""
    assert lost("anthropic", MESSAGES | {"container": "c"}, "anthropic:claude-sonnet-4-5") == {}
