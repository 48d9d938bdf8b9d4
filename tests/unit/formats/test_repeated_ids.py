"""Ids that occur twice: each result answers one call, and what was a guess is a loss with its path."""

import json
import re
from typing import Any

from dragoman import Message, TextBlock, ToolUseBlock
from dragoman.adapter.losses import LossKind
from dragoman.formats import (
    from_native,
    read,
    to_acp,
    to_hugging_face,
    to_langchain,
    to_litellm,
    to_native,
    to_pydantic_ai,
    to_umf,
)
from dragoman.formats.reading.tool_calls import OpenCalls, pair_repeated
from dragoman.formats.registry import get_format
from tests.tables import each_row

_A, _B = "tu_01M82TVNET53YV4H6AN52K8PVA", "tu_01M82TVNET53YV4H6AN52K8PVB"
_HISTORY = [
    Message.user("Weather?"),
    Message.assistant([
        TextBlock(text="I look."),
        ToolUseBlock(id=_A, name="weather", input={"in": "Bern"}),
        ToolUseBlock(id=_B, name="weather", input={"in": "Ulm"}),
    ]),
    Message.tool(_A, "first."),
    Message.tool(_B, "second."),
]  # fmt: skip
_WRITERS: dict[str, Any] = {
    "umf": to_umf, "acp": to_acp, "litellm": to_litellm, "langchain": to_langchain, "pydantic-ai": to_pydantic_ai,
    "hf": to_hugging_face,
}  # fmt: skip
_OWN = ("umf", "acp", "cmf")
_PROVIDERS = ("openai-chat", "openai", "anthropic", "bedrock", "cohere", "mistral", "ollama")
_ID = re.compile(r'"(?:id|call_id|tool_call_id|toolUseId)\\?": ?\\?"(\w+)')

_HANDWRITTEN = {
    "haystack": [
        {"role": "assistant", "content": [
            {"tool_call": {"tool_name": "weather", "arguments": {"in": name}, "id": name}} for name in ("a", "b")]},
        *({"role": "tool", "content": [
            {"tool_call_result": {"result": text, "origin": {"tool_name": "weather", "arguments": {"in": "a"},
                                                             "id": "a"}, "error": False}}]}
          for text in ("first.", "second.")),
    ],
    "cmf": [
        {"role": "assistant", "content": [
            {"content_type": "tool_call", "content": {"tool_call_id": name, "name": "weather", "arguments": {}}}
            for name in ("a", "b")]},
        *({"role": "tool", "content": [
            {"content_type": "tool_result",
             "content": {"tool_call_id": "a", "tool_name": "weather", "content": text, "is_error": False}}]}
          for text in ("first.", "second.")),
    ],
    "vercel-model": [
        {"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": name, "toolName": "weather", "input": {}} for name in ("a", "b")]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "a", "toolName": "weather",
             "output": {"type": "text", "value": text}} for text in ("first.", "second.")]},
    ],
}  # fmt: skip


def _write_with_one_id(name: str) -> str:
    """Return the history in a format, with the id of the first result also on the second: its last id."""
    data = _WRITERS[name](_HISTORY).data if name in _WRITERS else to_native(name, _HISTORY).data
    text = data if isinstance(data, str) else json.dumps(data)
    first, second = list(dict.fromkeys(_ID.findall(text)))[:2]
    head, _, tail = text.rpartition(second)
    return head + first + tail


def _answers(messages: list[Message]) -> list[tuple[str, str]]:
    return [
        (result.tool_use_id, block.text)
        for message in messages
        for result in message.tool_results
        for block in result.content
        if isinstance(block, TextBlock)
    ]


@each_row("name", _OWN)
def test_formats_of_histories_keep_their_ids(name: str) -> None:
    """They hold histories of ours as they are: the loss names the result, and the document is written again."""
    document = _HANDWRITTEN[name] if name in _HANDWRITTEN else json.loads(_write_with_one_id(name))
    found = read(document, name)
    first = next(call.id for message in found.messages for call in message.tool_uses)
    assert _answers(found.messages) == [(first, "first."), (first, "second.")]
    (loss,) = [loss for loss in found.losses if loss.kind is LossKind.DUPLICATE_TOOL_ID]
    assert loss.path.startswith(f"$[{len(document) - 1}]")
    write = get_format(name).write
    assert write is not None
    assert write(found.messages, None).data == document


@each_row("name", list(_WRITERS))
def test_an_id_that_occurs_in_each_turn_stays_in_its_turn(name: str) -> None:
    """A call that nobody answered gets no result of a later turn."""
    id_ = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
    call = ToolUseBlock(id=id_, name="weather", input={})
    history = [
        *(Message.user("Go."), Message.assistant([call, call]), Message.tool(id_, "first.")),
        *(Message.assistant([call]), Message.tool(id_, "second.")),
    ]
    write = get_format(name).write
    assert write is not None
    found = read(write(history, None).data, name).messages
    calls = [call.id for message in found for call in message.tool_uses]
    assert {text: calls.index(call_id) for call_id, text in _answers(found)} == {"first.": 0, "second.": 2}


@each_row("name", [name for name in (*_PROVIDERS, *_WRITERS, *_HANDWRITTEN) if name not in _OWN])
def test_a_result_with_an_answered_id_belongs_to_the_next_open_call(name: str) -> None:
    """It is not a second result of the first call, and a writer has nothing to repair."""
    document = _HANDWRITTEN[name] if name in _HANDWRITTEN else _write_with_one_id(name)
    found = read(document, name)
    calls = [call.id for message in found.messages for call in message.tool_uses]
    assert _answers(found.messages) == list(zip(calls, ("first.", "second."), strict=True))
    (loss,) = [loss for loss in found.losses if loss.kind is LossKind.DUPLICATE_TOOL_ID]
    assert "given to the next open call, of 'weather'" in loss.reason
    assert re.match(r"\$.*\[\d+\]", loss.path), loss.path
    kinds = {str(loss.kind) for loss in to_native("openai-chat", found.messages).losses}
    assert not kinds & {"orphan_result", "interrupted_call"}


def _chat(*ids: str, calls: tuple[str, ...] = ("a", "b")) -> list[dict[str, Any]]:
    called = [{"id": each, "type": "function", "function": {"name": "f", "arguments": "{}"}} for each in calls]
    answers = [{"role": "tool", "tool_call_id": each, "content": f"{number}."} for number, each in enumerate(ids)]
    return [{"role": "user", "content": "Go."}, {"role": "assistant", "content": None, "tool_calls": called}, *answers]


@each_row(("document", "answered", "paths"), [
    (_chat("a", "b"), {"0.": 0, "1.": 1}, []),
    (_chat("a", "a", "b"), {"0.": 0, "1.": 0, "2.": 1}, ["$.messages[3]"]),  # both calls have results of their own
    (_chat("b", "b"), {"0.": 1, "1.": 0}, ["$.messages[3]"]),
    (_chat("a", "a", calls=("a",)), {"0.": 0, "1.": 0}, ["$.messages[3]"]),
    (_chat("a", "a", calls=("a", "a")), {"0.": 0, "1.": 1}, ["$.messages[1]"]),
    (_chat("a", calls=("a", "a")), {"0.": 0}, ["$.messages[1]"]),
    ([*_chat("a", calls=("a",)), *_chat("a", calls=("a",))], {"0.": 1}, []),  # a server that counts in each turn
])  # fmt: skip
def test_ids_are_paired_in_their_turn(document: Any, answered: dict[str, int], paths: list[str]) -> None:
    """A call with its own result keeps it; calls that share an id are answered in order."""
    found = read(document, "openai-chat")
    calls = [call.id for message in found.messages for call in message.tool_uses]
    assert {text: calls.index(call_id) for call_id, text in _answers(found.messages)} == answered
    assert [loss.path for loss in found.losses] == paths


def test_rows_have_the_paths_of_their_losses() -> None:
    """The path of a loss in a request inside a document is that in the document."""
    rows = [{"messages": _chat("a", "b")}, {"messages": _chat("a", "a")}]
    assert [loss.path for loss in read(rows, "openai-finetuning").losses] == ["$[1].messages[3]"]


def test_a_history_with_repeated_ids_of_ours_stays() -> None:
    """Two calls of one canonical id may have two results of that id."""
    history = [_HISTORY[0], Message.assistant([ToolUseBlock(id=_A, name="f", input={})] * 2),
               Message.tool(_A, "first."), Message.tool(_A, "second.")]  # fmt: skip
    assert pair_repeated(history, ["$"] * len(history)) == history


def test_many_calls_are_paired_in_linear_time() -> None:
    """Each step looks at the calls that are still open, from the front."""
    calls = OpenCalls()
    for number in range(100_000):
        calls.add(str(number), "f")
    for number in reversed(range(100_000)):
        assert calls.answer(str(number))
    assert calls.first() is None
    history = from_native("openai-chat", _chat(*["c0"] * 3_000, calls=tuple(f"c{number}" for number in range(3_000))))
    assert len({call_id for call_id, _ in _answers(history)}) == 3_000
