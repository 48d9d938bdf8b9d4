"""LangChain's dumps: all forms, blocks of all generations, and no object made from a class name."""

import copy
import json
import sys
from typing import Any

import pytest

from dragoman.canonical.blocks import DocumentBlock, ImageBlock, ProviderBlock, TextBlock, ThinkingBlock
from dragoman.formats import FormatError, from_langchain
from tests.unit.formats.dump_files import dump


@pytest.mark.parametrize("form", ["dicts", "dumpd"])
def test_every_block_is_read(form: str) -> None:
    """Every block is read: LangChain's own of both generations, and OpenAI's in between; the same in both forms."""
    prompt_message, reply, answered, broken, chunk, function, developer = from_langchain(
        dump(f"langchain_every_block_{form}.json")
    )
    assert [block.type for block in prompt_message.content] == [
        "text", "text", "image", "image", "image", "image", "audio", "video", "document", "document", "document",
    ]  # fmt: skip
    first = prompt_message.content[2]
    assert isinstance(first, ImageBlock)
    assert (first.source.kind, first.media_type, first.detail) == ("base64", "image/png", "low")
    note = prompt_message.content[10]
    assert isinstance(note, DocumentBlock)
    assert (note.source.kind, note.source.data, note.title) == ("text", "A note.", "a.txt")
    kinds = [block.kind if isinstance(block, ProviderBlock) else block.type for block in reply.content]
    assert kinds == ["thinking", "text", "server_tool_call", "server_tool_result", "non_standard", "tool_use"]
    thought, text = reply.content[:2]
    assert isinstance(thought, ThinkingBlock)
    assert (thought.text, thought.signature) == ("Hm.", "c2ln")
    assert isinstance(text, TextBlock)
    assert text.citations[0].url == "https://example.org"
    assert answered.tool_results[0].tool_use_id == reply.tool_uses[0].id
    assert [block.type for block in answered.tool_results[0].content] == ["text", "image"]
    assert (broken.tool_uses[0].raw_input, len(broken.tool_uses)) == ('{"city', 1)
    assert (chunk.text, str(function.role), str(developer.role)) == ("In pieces.", "tool", "developer")


def test_messages_are_read_in_an_object_and_alone() -> None:
    """A state with messages, a prompt as LangChain dumps it, one message."""
    listed = json.loads(dump("langchain_chat_dumpd.json"))
    prompt = {"lc": 1, "type": "constructor", "id": ["langchain", "prompts", "chat", "ChatPromptValue"],
              "kwargs": {"messages": listed}}  # fmt: skip
    texts = [message.text for message in from_langchain(listed)]
    assert [message.text for message in from_langchain({"messages": listed})] == texts
    assert [message.text for message in from_langchain(json.dumps(prompt))] == texts
    assert [message.text for message in from_langchain(listed[1])] == texts[1:2]


def test_a_native_block_returns_to_its_provider() -> None:
    """In a reply that names its provider; fields that only a stream needs are dropped."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Bern"}}
    reply = {"type": "ai", "data": {"content": [{**search, "index": 0}],
            "response_metadata": {"model_provider": "anthropic", "model_name": "claude-sonnet-4-6"}}}  # fmt: skip
    (block,) = from_langchain([reply])[0].content
    assert isinstance(block, ProviderBlock)
    assert (block.provider, block.kind, block.data) == ("anthropic", "server_tool_use", search)


def test_calls_of_older_versions_are_read() -> None:
    """They are among the extra arguments, in OpenAI's format."""
    native = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    reply = {"type": "ai", "data": {"content": "", "additional_kwargs": {"tool_calls": [native]}}}
    thought = {"type": "ai", "data": {"content": "a", "additional_kwargs": {"reasoning_content": "Hm."}}}
    called, other = from_langchain([reply, thought])
    assert [(call.name, call.input) for call in called.tool_uses] == [("f", {"a": 1})]
    assert other.thinking == "Hm."


def test_removal_messages_remove_messages() -> None:
    """Removal messages remove messages: one by its id, or all earlier ones."""
    messages = [{"type": "human", "content": word, "id": word} for word in "ab"]
    assert [each.text for each in from_langchain([*messages, {"type": "remove", "content": "", "id": "a"}])] == ["b"]
    assert from_langchain([*messages, {"type": "remove", "content": "", "id": "__remove_all__"}]) == []


def test_a_programs_own_data_is_no_object_of_langchain() -> None:
    """A dump marks it, and it is read as the data that it was."""
    inner = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}
    document = copy.deepcopy(json.loads(dump("langchain_chat_dumpd.json")))
    document[2]["kwargs"]["tool_calls"][0]["args"] = {"__lc_escaped__": inner}
    assert from_langchain(document)[2].tool_uses[0].input == inner


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([{"lc": 1, "type": "constructor", "id": ["subprocess", "Popen"], "kwargs": {"args": "ls"}}], "$[0].id"),
        ([{"lc": 1, "type": "constructor", "id": "HumanMessage", "kwargs": {}}], "$[0]"),
        ([{"lc": 1, "type": "secret", "id": ["OPENAI_API_KEY"]}], "$[0]"),
        ([{"lc": 1, "type": "not_implemented", "id": ["a"], "repr": "a"}], "$[0]"),
        ([{"type": "king", "data": {"content": ""}}], "$[0].type"),
        ([{"content": "a"}], "$[0].type"),
        ([{"type": "human", "data": 5}], "$[0].data"),
        ([{"type": "human", "data": {"content": 5}}], "$[0].data.content"),
        ([{"type": "human", "content": [{"type": "text"}]}], "$[0].content[0]"),
        ({"messages": [{"type": "ai", "content": [{"type": "image_url"}]}]}, "$.messages[0].content[0].image_url"),
    ],
)
def test_errors_have_the_path_of_the_fault(document: Any, path: str) -> None:
    """No class is looked up, whatever its name."""
    before = set(sys.modules)
    with pytest.raises(FormatError) as caught:
        from_langchain(document)
    assert caught.value.path == path
    assert set(sys.modules) == before
