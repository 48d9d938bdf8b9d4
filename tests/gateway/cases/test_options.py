"""Options: which of them reach which provider, and what becomes of the others."""

import json
from typing import Any

import httpx

from dragoman.testing.faults.server import json_reply
from tests.gateway import upstream as other
from tests.gateway.cases.talk import Talk, tool
from tests.gateway.cases.test_requests import SCHEMA


def test_a_budget_of_thinking_fits_in_the_output(talk: Talk) -> None:
    """If the client names a limit of output, all of it together stays below; without one, there is room for it."""
    for limit in (512, 2048, None):
        fields: dict[str, Any] = {"max_tokens": limit} if limit else {}
        answered = talk.ask("openai-chat", "anthropic:claude-sonnet-4-5", reasoning_effort="high", **fields)
        sent = talk.upstream.body
        thinking = sent.get("thinking") or {}
        assert answered.status == 200
        if thinking.get("type") == "enabled":
            assert 1024 <= thinking["budget_tokens"] < sent["max_tokens"], limit
        assert "temperature" not in sent or not thinking


def test_a_provider_of_one_wire_is_asked_on_that_wire(talk: Talk) -> None:
    """Whatever the wire of the client is."""
    for wire in ("anthropic", "openai", "openai-chat"):
        assert talk.ask(wire, "mistral-model").status == 200
        assert talk.upstream.requests[-1].path.endswith("/v1/chat/completions"), wire


def test_a_model_that_no_table_has_gets_every_option(talk: Talk) -> None:
    """Nothing is left out because the model is unknown here."""
    described = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    fields: dict[str, Any] = {"response_format": described, "temperature": 0.5, "tools": [tool("openai-chat")]}
    answered = talk.ask("openai-chat", "openai-chat:of-tomorrow", **fields)
    assert answered.losses == ""
    assert {name: talk.upstream.body[name] for name in fields} == fields
    talk.ask(
        "anthropic", "openai-chat:of-tomorrow", output_config={"format": {"type": "json_schema", "schema": SCHEMA}}
    )
    assert talk.upstream.body["response_format"]["json_schema"]["schema"]["properties"] == SCHEMA["properties"]


def test_the_name_of_a_message_arrives_or_is_a_loss(talk: Talk) -> None:
    messages = [{"role": "user", "name": "ann", "content": "Hi"}, {"role": "user", "name": "bob", "content": "Ho"}]
    for model in ("chat-model", "messages-model", "google-model", "responses-model"):
        answered = talk.ask("openai-chat", model, messages=messages)
        sent = json.dumps(talk.upstream.body)
        assert answered.losses or ("ann" in sent and "bob" in sent), model


def test_dialects_do_not_learn_from_each_other(talk: Talk) -> None:
    """Two of them behind one address, alternately: each gets what it got at first."""
    sent: dict[str, list[Any]] = {"deepseek-model": [], "mistral-model": [], "chat-model": []}
    for _ in range(2):
        for model, bodies in sent.items():
            talk.ask("anthropic", model, system="Be brief.", max_tokens=50)
            bodies.append(talk.upstream.body)
    for model, (first, second) in sent.items():
        assert first == second, model
    assert "max_tokens" in sent["mistral-model"][0]
    assert "max_completion_tokens" in sent["chat-model"][0]


def test_the_key_of_a_prompt_cache_is_the_client_s(talk: Talk) -> None:
    """Where the provider has it: the same from turn to turn. None is made up."""
    for model in ("responses-model", "chat-model"):
        for wire in ("openai", "openai-chat"):
            answered = talk.ask(wire, model, prompt_cache_key="thread-7")
            assert talk.upstream.body["prompt_cache_key"] == "thread-7", (wire, model)
            assert answered.losses == ""
        talk.ask("anthropic", model)
        assert "prompt_cache_key" not in talk.upstream.body, model
    assert talk.ask("openai", "mistral-model", prompt_cache_key="thread-7").status == 200
    assert "prompt_cache_key" not in talk.upstream.body


def test_the_limit_of_output_reaches_ollama() -> None:
    """Under both names that Chat Completions has for it."""
    said = {"model": "m", "message": {"role": "assistant", "content": "Yes."}, "done": True, "done_reason": "stop",
            "prompt_eval_count": 5, "eval_count": 2}  # fmt: skip
    with other.gateway_before(json_reply(said), models={"house": "ollama:llama3"}) as (url, server):
        for name in ("max_tokens", "max_completion_tokens"):
            body = other.question("chat", "house", **{name: 77})
            assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200
            assert json.loads(server.requests[-1].body)["options"]["num_predict"] == 77, name
