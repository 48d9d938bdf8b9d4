"""Claude behind Chat Completions caches only where a request marks it, as the SDK can too."""

import json
from typing import Any

import openai

from dragoman import AdapterOptions, Message, TextBlock, get_adapter
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.client import Client
from tests.conformance.coverage.loopback import loopback
from tests.tables import each_row

MARK = {"cache_control": {"type": "ephemeral"}}
HOUR = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
COPILOT = {"copilot_cache_control": {"type": "ephemeral"}}
ENDPOINTS = [
    ("vercel", "anthropic/claude-opus-5"),
    ("databricks", "databricks-claude-sonnet-4-6"),
    ("compatible", "claude-sonnet-5"),
]
REPLY = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "claude",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
}  # fmt: skip
TOTALS = {"prompt_tokens": 5000, "completion_tokens": 2, "total_tokens": 5002}
USAGE: dict[str, dict[str, Any]] = {
    "databricks": {**TOTALS, "cache_read_input_tokens": 3000, "cache_creation_input_tokens": 1500},
}
"""Of an endpoint with names of its own, as recorded."""
OPENAI_USAGE = {**TOTALS, "prompt_tokens_details": {"cached_tokens": 3000, "cache_write_tokens": 1500}}


def part(text: str, **mark: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **mark}


def marked(message: Message, *blocks: int) -> Message:
    return message.model_copy(
        update={"metadata": message.metadata.model_copy(update={"cache_breakpoints": tuple(blocks)})}
    )


def encode(model: str, messages: list[Message], **options: Any) -> tuple[Any, list[str]]:
    request = get_adapter(model).to_wire(messages, [], AdapterOptions(**options))
    return json.loads(request.body)["messages"], [loss.reason for loss in request.losses]


@each_row(("provider", "model"), ENDPOINTS)
def test_the_request_is_that_of_the_sdk_and_the_reply_counts_what_was_cached(provider: str, model: str) -> None:
    """The same bytes of marks reach the server from OpenAI's SDK and from a session."""
    messages: list[Any] = [
        {"role": "system", "content": [part("Long rules.", **HOUR)]},
        {"role": "user", "content": [part("Long text.", **HOUR)]},
    ]
    with loopback() as server, Client() as client:
        server.answer = ("application/json", json.dumps({**REPLY, "usage": USAGE.get(provider, OPENAI_USAGE)}).encode())
        with openai.OpenAI(api_key="key-of-a-test", base_url=server.url) as sdk:
            sdk.chat.completions.create(model=model, messages=messages)
        reply = client.ask(
            f"{provider}:{model}", "Long text.", system="Long rules.", prompt_cache="1h",
            base_url=server.url, api_key="key-of-a-test",
        )  # fmt: skip
        assert server.sent[1].body["messages"] == server.sent[0].body["messages"] == messages
    usage = reply.message.metadata.usage
    assert usage is not None
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens) == (3000, 1500, 500)
    assert reply.losses == ()


@each_row(("provider", "model"), [*ENDPOINTS, ("openrouter", "anthropic/claude-opus-5.5")])
def test_marks_of_a_history_stay_on_their_blocks(provider: str, model: str) -> None:
    """Without `prompt_cache`: of texts, and of the result of a tool, whose end is marked."""
    call = ToolUseBlock(id="tu_00000000000000000000000001", name="f")
    history = [
        marked(Message.system("Rules."), 0),
        marked(Message.user([TextBlock(text="A"), TextBlock(text="B")]), 0),
        Message.assistant([call]),
        marked(Message.tool(call.id, "42"), 0),
        Message.user("C"),
    ]
    found, reasons = encode(f"{provider}:{model}", history)
    assert [message["content"] for message in found if message["role"] != "assistant"] == [
        [part("Rules.", **MARK)], [part("A", **MARK), part("B")], [part("42", **MARK)], "C",
    ]  # fmt: skip
    assert reasons == []


def test_copilot_marks_messages_and_knows_no_lifetime() -> None:
    """Its field is its own; what it cannot say is a loss."""
    model = "github-copilot:claude-opus-5"
    history = [marked(Message.system("Rules."), 0), marked(Message.user("Hi"), 0)]
    marks = [{"role": "system", "content": "Rules.", **COPILOT}, {"role": "user", "content": "Hi", **COPILOT}]
    assert encode(model, history) == (marks, [])
    assert encode(model, [Message.system("Rules."), Message.user("Hi")], prompt_cache="5m") == (marks, [])
    found, reasons = encode(model, [Message.system("Rules."), Message.user("Hi")], prompt_cache="1h")
    assert (found, len(reasons)) == (marks, 1)


LOSSES = [
    ("vercel", "openai/gpt-5.5", "chat"),
    ("databricks", "databricks-gpt-oss-120b", "chat"),
    ("github-copilot", "gpt-5.5", "chat"),
    ("github-copilot", "claude-opus-5", "responses"),
    ("compatible", "claude-sonnet-5", "responses"),
]


@each_row(("provider", "model", "api"), LOSSES)
def test_what_is_not_marked_is_a_loss(provider: str, model: str, api: str) -> None:
    """Of other models, and of the other API, which has no marks."""
    adapter: Any = get_adapter(f"{provider}:{model}")
    adapter = getattr(adapter, "apis", {}).get(api, type(adapter))(model)
    history = [marked(Message.system("Rules."), 0), marked(Message.user("Hi"), 0)]
    request = adapter.to_wire(history, [], AdapterOptions(prompt_cache="1h"))
    assert b"cache_control" not in request.body
    assert sorted(loss.reason.partition(":")[0] for loss in request.losses) == [
        "cache_breakpoints", "cache_breakpoints", "prompt_cache",
    ]  # fmt: skip
