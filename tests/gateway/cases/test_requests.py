"""Requests: roles, parameters, files, and what a cache needs."""

import base64
import json
from typing import Any

from tests.gateway.cases.talk import Talk, tool
from tests.gateway.scripted import answer_with, reply

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(40))).decode()
PDF = base64.b64encode(b"%PDF-1.4 a report").decode()
MODELS = ("chat-model", "responses-model", "google-model", "mistral-model")
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"],
          "additionalProperties": False}  # fmt: skip


def late(text: str = "Remember the rules.") -> list[dict[str, Any]]:
    """A system message after the user's, as an agent sends it."""
    return [{"role": "user", "content": "Hello"}, {"role": "system", "content": text}]


def test_a_late_system_message_is_accepted_by_every_model(talk: Talk) -> None:
    for model in MODELS:
        assert talk.ask("anthropic", model, messages=late()).status == 200, model
        assert "Remember the rules." in json.dumps(talk.upstream.body), model


def test_a_late_system_message_stays_in_its_place(talk: Talk) -> None:
    """So the beginning of the prompt is the same from turn to turn, and a cache finds it."""
    later = [*late(), {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
    for model, field in (("chat-model", "messages"), ("responses-model", "input"), ("google-model", "contents")):
        talk.ask("anthropic", model, messages=late(), system="Be brief.")
        first = talk.upstream.body[field]
        talk.ask("anthropic", model, messages=later, system="Be brief.")
        assert talk.upstream.body[field][: len(first)] == first, model


def test_the_instructions_of_a_responses_client_lead(talk: Talk) -> None:
    """Instructions and developer messages in front are the system's for a provider that knows no developer."""
    items = [{"role": "developer", "content": "Rule two."}, {"role": "user", "content": "Hello"}]
    talk.ask("openai", "messages-model", instructions="Rule one.", input=items)
    system = json.dumps(talk.upstream.body["system"])
    assert system.index("Rule one.") < system.index("Rule two.")
    assert [message["role"] for message in talk.upstream.body["messages"]] == ["user"]


def test_a_schema_for_the_answer_reaches_the_provider(talk: Talk) -> None:
    """A schema for the answer reaches the provider in both directions between Messages and Chat Completions, and from
    Responses.
    """
    described = {"name": "answer", "schema": SCHEMA, "strict": True}
    chat = {"response_format": {"type": "json_schema", "json_schema": described}}
    responses = {"text": {"format": {"type": "json_schema", **described}}}
    messages = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    talk.ask("openai-chat", "messages-model", **chat)
    assert talk.upstream.body["output_config"]["format"]["schema"]["properties"] == SCHEMA["properties"]
    talk.ask("openai", "messages-model", **responses)
    assert talk.upstream.body["output_config"]["format"]["schema"]["properties"] == SCHEMA["properties"]
    talk.ask("anthropic", "chat-model", **messages)
    assert talk.upstream.body["response_format"]["json_schema"]["schema"]["properties"] == SCHEMA["properties"]


def test_the_id_of_a_user_that_is_too_long_is_digested(talk: Talk) -> None:
    """An agent sends a JSON text of 150 characters with signs that are refused."""
    user = json.dumps({"device_id": "d" * 64, "account_uuid": "", "session_id": "s@:" * 20})
    answered = talk.ask("anthropic", "chat-model", metadata={"user_id": user})
    sent = talk.upstream.body["safety_identifier"]
    assert len(sent) <= 64
    assert sent.isalnum()
    assert "option=" in answered.losses
    talk.ask("anthropic", "chat-model", metadata={"user_id": user})
    assert talk.upstream.body["safety_identifier"] == sent


def test_empty_texts_do_not_become_blocks(talk: Talk) -> None:
    """Beside calls, and alone."""
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    for content in ("", " ", [], [{"type": "text", "text": ""}], None):
        messages = [{"role": "user", "content": "Hi"},
                    {"role": "assistant", "content": content, "tool_calls": [call]}, result]  # fmt: skip
        assert talk.ask("openai-chat", "messages-model", messages=messages, tools=[tool("openai-chat")]).status == 200
        blocks = [block for message in talk.upstream.body["messages"] for block in message["content"]]
        texts = [block["text"] for block in blocks if isinstance(block, dict) and block["type"] == "text"]
        assert all(text.strip() for text in texts), content


def test_an_image_in_a_result_arrives(talk: Talk) -> None:
    """Where results hold no images, it stands behind the whole group of results, and the pairs stay whole."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    ids = ("toolu_1", "toolu_2")
    calls = [{"type": "tool_use", "id": each, "name": "weather", "input": {}} for each in ids]
    results: list[Any] = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]},
                          {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no picture"}]  # fmt: skip
    messages = [{"role": "user", "content": "Look"}, {"role": "assistant", "content": calls},
                {"role": "user", "content": results}]  # fmt: skip
    for model in ("chat-model", "responses-model", "google-model"):
        answered = talk.ask("anthropic", model, messages=messages, tools=[tool("anthropic")])
        assert answered.status == 200, model
        assert PNG in json.dumps(talk.upstream.body), model
    talk.ask("anthropic", "chat-model", messages=messages, tools=[tool("anthropic")])
    assert [message["role"] for message in talk.upstream.body["messages"]] == [
        "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip


def test_a_document_arrives_or_the_loss_is_named(talk: Talk) -> None:
    """An answer without the document is never given silently."""
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [document]}
    histories = (
        [{"role": "user", "content": [document, {"type": "text", "text": "Read"}]}],
        [{"role": "user", "content": "Read"}, {"role": "assistant", "content": [call]},
         {"role": "user", "content": [result]}],
    )  # fmt: skip
    for model in MODELS:
        for messages in histories:
            answered = talk.ask("anthropic", model, messages=messages, tools=[tool("anthropic")])
            if answered.status == 200:
                assert PDF in json.dumps(talk.upstream.body) or "media=" in answered.losses, model
            else:
                assert answered.status == 400, model


def test_the_same_conversation_is_the_same_prompt_from_every_client(talk: Talk) -> None:
    """Over all three wires, so that one cache serves all."""
    asked = "How is the weather in Bern?"
    bodies = []
    for wire, field in (("anthropic", "messages"), ("openai", "input")):
        items = [{"role": "user", "content": asked}, {"role": "assistant", "content": "Sunny."},
                 {"role": "user", "content": "And in Oslo?"}]  # fmt: skip
        talk.ask(wire, "mistral-model", tools=[tool(wire)], **{field: items})
        bodies.append({key: talk.upstream.body[key] for key in ("messages", "tools")})
    assert bodies[0] == bodies[1]


def test_an_effort_is_mapped_and_reasoning_comes_back(talk: Talk) -> None:
    talk.upstream.script = answer_with(reply("Yes.", thinking=("Because.",)))
    seen = talk.ask("openai-chat", "responses-model", reasoning_effort="high").seen
    assert talk.upstream.body["reasoning"]["effort"] == "high"
    assert (seen.thinking, seen.text) == ("Because.", "Yes.")
    talk.ask("openai-chat", "messages-model", reasoning_effort="high")
    assert talk.upstream.body["output_config"]["effort"] == "high"


def test_thinking_that_a_model_lacks_is_left_out_with_what_depends_on_it(talk: Talk) -> None:
    """An agent always asks for it, and for the edit of the context that goes with it."""
    fields = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
              "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}  # fmt: skip
    answered = talk.ask("anthropic", "mistral-model", **fields)
    assert answered.status == 200
    assert "option=" in answered.losses
    assert not {"thinking", "context_management", "output_config"} & talk.upstream.body.keys()
