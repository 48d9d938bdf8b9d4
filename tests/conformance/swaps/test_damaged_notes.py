"""An adapter's notes on a message or a tool may be damaged by a store or a program."""

from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.tools import ToolDefinition
from tests.laws.streams.subjects import MODELS, create_adapter

_KEYS = (
    "api", "blocks", "residue", "entry", "behind", "parts", "conversation", "fields", "message_fields", "native",
    "tool_ids", "prefix", "actions", "status",
)  # fmt: skip
_DAMAGED: tuple[Any, ...] = ("x", 7, [1], {"0": 7}, {"0": "x"}, {"0": {"set": 7}}, {"0": [1]}, None)


@pytest.mark.parametrize("provider", MODELS)
def test_damaged_notes_are_a_typed_error_or_ignored(provider: str) -> None:
    """Whatever the notes hold, a request is written, or RequestError names them."""
    adapter = create_adapter(provider)
    refused = 0
    for key in _KEYS:
        for value in _DAMAGED:
            raw = {"by": provider, key: value}
            metadata = MessageMetadata(provider_raw=raw, model=str(adapter.model_id), provider=provider)
            content = (
                ThinkingBlock(text="Hm.", signature="c2ln"),
                TextBlock(text="Well."),
                ToolUseBlock(id="tu_1", name="look", input={}),
            )
            history = [
                Message(role=Role.USER, content=(TextBlock(text="Hi"),), metadata=metadata),
                Message(role=Role.ASSISTANT, content=content, metadata=metadata),
                Message.tool("tu_1", "Found."),
            ]
            try:
                adapter.to_wire(history, [ToolDefinition(name="look", provider_raw=raw)], AdapterOptions())
            except RequestError:
                refused += 1
    assert refused


def test_an_error_that_is_not_the_notes_fault_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of an encoder is not disguised as damage."""
    adapter = create_adapter("anthropic")

    def fail(*_: Any) -> None:
        raise AttributeError("a bug")

    monkeypatch.setattr(type(adapter), "encode_body", fail)
    history = [Message.user("Hi").model_copy(update={"metadata": MessageMetadata(provider_raw={"by": "anthropic"})})]
    with pytest.raises(AttributeError, match="a bug"):
        adapter.to_wire(history, [], AdapterOptions())
