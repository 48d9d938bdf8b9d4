"""Any message of the assistant can be written on any wire: what the wire cannot say is a loss, never an exception."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.answers.reply_writer import FAILED
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import MessageComplete, MessageStart, StreamEvent, TextDelta, ThinkingDelta
from dragoman.canonical.message import MessageMetadata, MessageStatus, Role, StopReason
from dragoman.testing import strategies
from tests.conformance.way_back.grammar import GRAMMARS
from tests.sampling import examples

WIRES = tuple(GRAMMARS)
KEYS = StateKeys({"a": bytes(range(64))})
STOPS = [reason for reason in StopReason if reason not in FAILED]


@st.composite
def replies(draw: st.DrawFn) -> Message:
    """A complete message of the assistant, from any provider."""
    content = draw(st.lists(strategies.blocks, max_size=4, unique_by=lambda block: getattr(block, "id", id(block))))
    provider = draw(st.sampled_from(["anthropic", "openai", "openai-chat", "google", "ollama", "bedrock"]))
    # What is a provider's own in its reply (native blocks, sources) is what it sent, and these are not.
    content = [block for block in content if not isinstance(block, ProviderBlock) or block.provider != provider]
    if provider in WIRES:
        content = [TextBlock(text=block.text) if isinstance(block, TextBlock) else block for block in content]
    metadata = MessageMetadata(
        model=f"{provider}:m",
        provider=provider,
        status=MessageStatus.COMPLETE,
        stop_reason=draw(st.sampled_from(STOPS)),
        usage=draw(st.none() | strategies.usages),
    )
    return Message(role=Role.ASSISTANT, content=tuple(content), metadata=metadata)


def context(message: Message) -> RequestContext:
    return RequestContext(
        model=message.metadata.model or "", state_sealer=KEYS, state_store=StateMemory(), client_fields={}
    )


def events(message: Message) -> list[StreamEvent]:
    """A stream of the message: its texts and thoughts as deltas, the rest at the end."""
    found: list[StreamEvent] = [MessageStart(message.id, message.metadata.model or "")]
    for index, block in enumerate(message.content):
        if isinstance(block, TextBlock) and block.text:
            found.append(TextDelta(message.id, index, block.text))
        elif isinstance(block, ThinkingBlock) and block.text:
            found.append(ThinkingDelta(message.id, index, block.text, block.signature))
    return [*found, MessageComplete(message)]


@pytest.mark.parametrize("wire", WIRES)
@examples(500, sampled=25)
@given(message=replies())
def test_any_message_is_a_reply(wire: str, message: Message) -> None:
    """Whole and streamed, with its text and its calls."""
    adapter = get_adapter(f"{wire}:client")
    given_context = context(message)
    written = adapter.to_wire_response(message, given_context)
    assert written.status == 200
    assert isinstance(json.loads(written.body), dict)
    if not message.text.strip() and not message.tool_uses:
        return  # a reply that says nothing
    read = adapter.from_wire_response(written, RequestContext(model=f"{wire}:client"))
    assert read.text == message.text
    assert _runnable(read) == _runnable(message)
    stream = b"".join(adapter.iter_encoded(events(message), context(message)))
    assert list(GRAMMARS[wire](stream)) == []
    last: Any = list(adapter.iter_stream([stream], RequestContext(model=f"{wire}:client")))[-1]
    assert sorted(last.message.text) == sorted(message.text)
    assert _runnable(last.message) == _runnable(message)


def _runnable(message: Message) -> list[tuple[str, str]]:
    return [
        (block.name, json.dumps(block.input, sort_keys=True))
        for block in message.content
        if isinstance(block, ToolUseBlock) and block.raw_input is None
    ]
