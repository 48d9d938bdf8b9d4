"""The caller's own fields: merged at any depth, with a loss for each option that they override."""

import json
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import RequestError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
TOOL = ToolDefinition(name="look_up")


def write(model: str, tools: Any = (), **options: Any) -> tuple[dict[str, Any], WireRequest]:
    wire = get_adapter(model).to_wire([Message.user("Hi")], tools, AdapterOptions(**options))
    return json.loads(wire.body), wire


def test_objects_are_merged_field_by_field() -> None:
    """A field beside an option does not erase the option."""
    body, wire = write("openai:gpt-5.4", output_schema=SCHEMA, extra={"openai": {"text": {"verbosity": "low"}}})
    assert (body["text"]["verbosity"], body["text"]["format"]["schema"]) == ("low", SCHEMA)
    assert wire.losses == ()


def test_an_option_that_extra_overrides_is_a_loss() -> None:
    """The value of extra is sent, at any depth; a default of the adapter is not an option of the caller."""
    own = {"text": {"verbosity": "low"}, "temperature": 0.5}
    body, wire = write("openai:gpt-4o", verbosity="high", temperature=1.0, extra={"openai": own})
    assert (body["text"], body["temperature"]) == ({"verbosity": "low"}, 0.5)
    assert [loss.reason.partition(" is")[0] for loss in wire.losses] == ["extra: text.verbosity", "extra: temperature"]
    body, wire = write("anthropic:claude-haiku-4-5", extra={"anthropic": {"max_tokens": 5}})
    assert (body["max_tokens"], wire.losses) == (5, ())


@pytest.mark.parametrize(
    ("model", "tool"),
    [
        ("anthropic:claude-haiku-4-5", {"type": "web_search_20250305", "name": "web_search"}),
        ("openai:gpt-5.4", {"type": "web_search"}),
        ("google:gemini-3-flash-preview", {"googleSearch": {}}),
    ],
)
def test_tools_are_added(model: str, tool: dict[str, Any]) -> None:
    """The functions stay."""
    body, wire = write(model, [TOOL], extra={model.partition(":")[0]: {"tools": [tool]}})
    assert (len(body["tools"]), body["tools"][-1], wire.losses) == (2, tool, ())


def test_an_object_of_another_type_is_replaced() -> None:
    """Half of one kind and half of another are neither."""
    own = {"text": {"format": {"type": "json_object"}}}
    body, wire = write("openai:gpt-5.4", output_schema=SCHEMA, extra={"openai": own})
    assert body["text"] == own["text"]
    assert len(wire.losses) == 1


def test_a_body_that_was_read_is_restored_without_a_loss() -> None:
    """What its client wrote differently from us is not an override of the client's own options."""
    native = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
              "output_config": {"effort": "minimal"}, "tools": []}  # fmt: skip
    adapter = get_adapter("anthropic:claude-opus-4-6")
    wire = adapter.to_wire(*adapter.from_wire_request(native, RequestContext(model="anthropic:claude-opus-4-6")))
    sent = json.loads(wire.body)
    assert (sent["output_config"], sent["tools"]) == (native["output_config"], [])
    assert [loss.reason for loss in wire.losses if loss.reason.startswith("extra")] == []


def test_headers_are_sent_to_their_provider_alone() -> None:
    """A header for one gateway does not travel to the next vendor."""
    headers = {"anthropic": {"anthropic-beta": "files"}, "openai": {"x-team": "blue"}}
    assert write("openai:gpt-4o", headers=headers)[1].headers == {"content-type": "application/json", "x-team": "blue"}
    assert write("anthropic:claude-haiku-4-5", headers=headers)[1].headers["anthropic-beta"] == "files"
    with pytest.raises(RequestError, match="by provider"):
        AdapterOptions(headers={"x-team": "blue"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("model", "options", "fields"),
    [
        ("anthropic:claude-haiku-4-5", {"user": "u"}, {"metadata": {"user_id": "u"}}),
        ("anthropic:claude-haiku-4-5", {"service_tier": "standard"}, {"service_tier": "standard_only"}),
        ("openai:gpt-5.4", {"service_tier": "flex", "metadata": {"a": "b"}},
         {"service_tier": "flex", "metadata": {"a": "b"}}),
        ("openai:gpt-5.4", {"reasoning_summary": "detailed"}, {"reasoning": {"summary": "detailed"}}),
        ("openai:gpt-5.4", {"logprobs": 2}, {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}),
        ("openai-chat:gpt-5.4", {"verbosity": "low", "user": "u"}, {"verbosity": "low", "safety_identifier": "u"}),
        ("openai-chat:gpt-4o", {"logprobs": 0}, {"logprobs": True}),
        ("groq:llama-3.3-70b-versatile", {"service_tier": "standard"}, {"service_tier": "on_demand"}),
        ("mistral:mistral-small-latest", {"safety": "strict"}, {"safe_prompt": True}),
        ("cohere:command-a-03-2025", {"safety": "standard", "logprobs": 0},
         {"safety_mode": "CONTEXTUAL", "logprobs": True}),
        ("google:gemini-3-flash-preview", {"service_tier": "flex"}, {"serviceTier": "flex"}),
        ("google-vertex:gemini-3-flash-preview", {"metadata": {"a": "b"}}, {"labels": {"a": "b"}}),
        ("bedrock:amazon.nova-lite-v1:0", {"service_tier": "standard"}, {"serviceTier": {"type": "default"}}),
        ("ollama:qwen3", {"num_ctx": 4096, "keep_alive": "10m"}, {"options": {"num_ctx": 4096}, "keep_alive": "10m"}),
    ],
)  # fmt: skip
def test_typed_options_are_sent_and_read_back(model: str, options: dict[str, Any], fields: dict[str, Any]) -> None:
    """Each provider's own field and word; the same options come back from the request."""
    body, wire = write(model, **options)
    assert ({name: body[name] for name in fields}, wire.losses) == (fields, ())
    _, _, read = get_adapter(model).from_wire_request(body, RequestContext(model=model))
    assert {name: getattr(read, name) for name in options} == options


def test_a_word_that_the_provider_lacks_is_a_loss() -> None:
    """It is not sent."""
    body, wire = write("anthropic:claude-haiku-4-5", service_tier="flex")
    assert "service_tier" not in body
    assert [loss.reason.partition(":")[0] for loss in wire.losses] == ["service_tier"]
