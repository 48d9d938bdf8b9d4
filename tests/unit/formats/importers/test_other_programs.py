"""Conversations that other programs keep: what their handwritten samples say is read."""

import copy
import json
from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.blocks import ImageBlock, ProviderBlock, TextBlock, ThinkingBlock
from dragoman.formats import FormatError, identify, read, to_native
from tests.tables import each_row
from tests.unit.formats.importers.samples import SAMPLES


def sample(name: str) -> list[Message]:
    format_name, document = SAMPLES[name]
    return read(document, format_name).messages


@each_row(("name", "roles"), [
    ("vercel-ui", "user assistant tool assistant"),
    ("vercel-model", "system user assistant tool assistant"),
    ("openai-finetuning", "user assistant tool assistant"),
    ("preference", "user assistant"),
    ("openai-batch", "user assistant tool assistant"),
    ("openai-batch replies", "assistant"),
    ("anthropic-batch", "user"),
    ("anthropic-batch replies", "assistant"),
    ("hf", "user assistant tool assistant"),
    ("sharegpt", "system user assistant tool assistant"),
    ("otel", "system user assistant tool assistant"),
    ("claude-code", "user assistant tool assistant"),
    ("codex", "system user assistant tool assistant"),
    ("chatgpt", "user assistant tool assistant"),
    ("a2a", "user assistant tool assistant"),
    ("llm-json", "user assistant tool assistant"),
    ("llm-json rows", "system user assistant"),
])  # fmt: skip
def test_each_speaks_in_turn(name: str, roles: str) -> None:
    """Each result answers the call before it, and the last message is the answer."""
    messages = sample(name)
    assert " ".join(str(message.role) for message in messages) == roles
    calls = [call.id for message in messages for call in message.tool_uses]
    results = [result.tool_use_id for message in messages for result in message.tool_results]
    assert results == calls[: len(results)]
    assert "Weather" in messages[-1].text or messages[-1].text == "Rain."


@each_row("name", list(SAMPLES))
def test_each_is_detected(name: str) -> None:
    """Values of Python, JSON and a list from JSON lines are detected."""
    format_name, document = SAMPLES[name]
    assert identify(document).format == format_name
    assert identify(json.dumps(document)).format == format_name
    if isinstance(document, list):
        assert identify("\n".join(map(json.dumps, document)) + "\n").format == format_name


@each_row(("name", "model", "prompt", "cached", "output"), [
    ("vercel-ui", "anthropic:unnamed", 30, 20, 4),
    ("openai-batch replies", "openai-chat:gpt-6-luna", 10, 0, 2),
    ("anthropic-batch replies", "anthropic:claude-opus-5-5", 10, 0, 2),
    ("otel", "anthropic:claude-opus-5-5", 30, 20, 4),
    ("claude-code", "anthropic:claude-opus-5-5", 40, 0, 2),
    ("codex", "openai:gpt-6.1-sol", 50, 30, 2),
    ("llm-json", "anthropic:claude-opus-5-5", 30, 20, 4),
])  # fmt: skip
def test_models_and_tokens_are_read(name: str, model: str, prompt: int, cached: int, output: int) -> None:
    *_, reply = sample(name)
    usage = reply.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_input_tokens, usage.output_tokens) == (prompt, cached, output)
    if name != "vercel-ui":
        assert reply.metadata.model == model


def test_a_line_of_claude_code_is_a_block_of_a_reply() -> None:
    """The last counts of the same reply hold."""
    reply = sample("claude-code")[1]
    assert [block.type for block in reply.content] == ["thinking", "tool_use"]
    assert reply.usage is not None
    assert reply.usage.output_tokens == 9


def test_signed_thinking_returns_to_its_provider() -> None:
    """A part names the provider; the model is unnamed, as in a list of the provider."""
    written = to_native("anthropic", sample("vercel-model")).data
    assert isinstance(written, dict)
    assert written["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Look.", "signature": "c2ln"}


def test_sources_and_citations_are_on_the_text() -> None:
    *_, reply = sample("vercel-ui")
    text = next(block for block in reply.content if isinstance(block, TextBlock))
    assert [citation.url for citation in text.citations] == ["https://example.org", "https://example.org/2"]


def test_what_a_provider_ran_is_kept() -> None:
    """As a block of the library, which no adapter sends."""
    call = sample("vercel-model")[2].content[-1]
    assert isinstance(call, ProviderBlock)
    assert (call.provider, call.kind) == ("vercel-ai", "web_search")


def test_media_are_read() -> None:
    """Media are read by URL and as data, in prompts and results."""
    for name in ("vercel-ui", "vercel-model", "otel", "a2a", "hf", "llm-json", "llm-json rows", "chatgpt"):
        assert any(isinstance(block, ImageBlock) for message in sample(name) for block in message.content), name
    (result,) = sample("vercel-model")[3].tool_results
    assert [block.type for block in result.content] == ["text", "image"]


def test_a_null_of_a_column_is_no_argument() -> None:
    """Data sets store the arguments of all tools in each row."""
    tool = {"function": {"name": "f", "parameters": {"properties": {
        "a": {"type": "string"}, "b": None, "c": {"type": ["string", "null"]}}}}}  # fmt: skip
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": "1", "b": None, "c": None}}}
    rows = [{"tools": [tool], "messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}]
    result = read(rows, "hf")
    assert result.messages[0].tool_uses[0].input == {"a": "1", "c": None}
    assert result.losses[0].path == "$[0].messages[0].tool_calls[0].function.arguments"


def test_results_without_ids_answer_in_order() -> None:
    """As chat templates have them: by the name of the tool, or only by their place."""
    calls = [{"function": {"name": "f", "arguments": {"n": n}}} for n in (1, 2)]
    for name in ("f", None):
        rows = [{"messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "name": name, "content": "one"},
            {"role": "tool", "name": name, "content": "two"}]}]  # fmt: skip
        _, asked, first, second = read(rows, "hf").messages
        assert [first.tool_results[0].tool_use_id, second.tool_results[0].tool_use_id] == [
            call.id for call in asked.tool_uses
        ]


@each_row(("format_name", "document", "path"), [
    ("chatgpt", [{"title": "", "current_node": "a", "mapping": {
        "a": {"parent": "b"}, "b": {"parent": "a"}}}], "$[0].mapping"),
    ("chatgpt", [{"title": "", "current_node": "a", "mapping": {}}], "$[0].mapping"),
    ("claude-code", [
        {"type": "user", "uuid": "1", "parentUuid": "2", "message": {"role": "user", "content": "a"}},
        {"type": "user", "uuid": "2", "parentUuid": "1", "message": {"role": "user", "content": "b"}}],
     "$[1].message.content"),
    ("vercel-ui", [{"id": "1", "role": "king", "parts": []}], "$[0].role"),
    ("vercel-ui", [{"id": "1", "role": "user", "parts": [{"type": "text", "text": 5}]}], "$[0].parts[0].text"),
    ("vercel-model", [{"role": "assistant", "content": [{"type": "tool-call"}]}], "$[0].content[0]"),
    ("hf", [{"messages": [{"role": "user", "content": "a"}, {"role": "king", "content": ""}]}], "$[0].messages[1]"),
    ("openai-batch", [{"custom_id": "a", "url": "/v1/embeddings", "body": {}}], "$[0].url"),
    ("otel", {"attributes": {"gen_ai.input.messages": "["}}, "$.attributes['gen_ai.input.messages']"),
    ("otel", {"attributes": {}}, "$"),
    ("a2a", {"id": "a"}, "$"),
])  # fmt: skip
def test_faults_have_a_path(format_name: str, document: Any, path: str) -> None:
    """Circles, missing nodes, unknown roles and values of a wrong type."""
    with pytest.raises(FormatError) as caught:
        read(document, format_name)
    assert caught.value.path == path


def test_a_failed_request_of_a_batch_is_a_loss() -> None:
    """The others are read."""
    _, rows = SAMPLES["openai-batch replies"]
    failed = {"id": "c", "custom_id": "2", "response": None, "error": {"code": "expired"}}
    result = read([*rows, failed], "openai-batch")
    assert len(result.conversations) == 1
    assert (result.losses[0].path, "expired" in result.losses[0].reason) == ("$[1]", True)


def test_a_call_with_broken_arguments_keeps_them() -> None:
    part = {"type": "tool-f", "toolCallId": "1", "state": "output-error", "rawInput": '{"a": ', "errorText": "Cut."}
    reply, answer = read([{"id": "1", "role": "assistant", "parts": [part]}], "vercel-ui").messages
    assert reply.tool_uses[0].raw_input == '{"a": '
    assert (answer.tool_results[0].is_error, [block.type for block in reply.content]) == (True, ["tool_use"])


def test_thinking_is_read() -> None:
    for name in ("vercel-ui", "vercel-model", "hf", "otel", "claude-code", "codex", "llm-json", "llm-json rows"):
        thoughts = [block for message in sample(name) for block in message.content if isinstance(block, ThinkingBlock)]
        assert [thought.text for thought in thoughts] == ["Look."], name


def test_a_repeated_line_of_claude_code_is_read_once() -> None:
    """A log that was continued repeats the lines before; another message of the same id stays."""
    name, log = SAMPLES["claude-code"]
    once = read(log, name)
    twice = read([line for line in log for line in (line, copy.deepcopy(line))], name)
    assert [(message.role, message.text) for message in twice.messages] == [
        (message.role, message.text) for message in once.messages
    ]
    assert len(twice.losses) - len(once.losses) == sum("uuid" in line for line in log)
    other = copy.deepcopy(log[0]) | {"message": {"role": "user", "content": "And then?"}}
    found = read([*log, other], name)
    assert any("occurs again with another message" in loss.reason for loss in found.losses)


@each_row(("name", "change"), [
    ("claude-code", lambda log: log[0].update(parentUuid=log[-1]["uuid"])),
    ("claude-code", lambda log: log[1].update(parentUuid=log[1]["uuid"])),
    ("chatgpt", lambda export: export[0]["mapping"]["n1"].update(parent="n5")),
    ("chatgpt", lambda export: export[0]["mapping"]["n3"].update(parent="n3")),
    ("chatgpt", lambda export: export[0]["mapping"]["n3"].update(parent="n9")),
])  # fmt: skip
def test_a_circle_of_parents_is_a_fault(name: str, change: Any) -> None:
    """And so is a parent of ChatGPT that is missing."""
    name, document = SAMPLES[name]
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises(FormatError, match=r"its own ancestor|is missing") as caught:
        read(changed, name)
    assert caught.value.path.startswith("$[")
