"""Laws of losses: the list is empty exactly where the conversation comes back from the wire as it went in."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from dragoman import AdapterOptions, Message, RequestContext, Role
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.ids import encode_ulid
from dragoman.canonical.message import MessageMetadata
from tests.conformance.handover import TARGETS

_NOW = datetime(2026, 11, 1, tzinfo=UTC)
_PIXEL = MediaSource(kind="base64", data="iVBORw0KGgo=")

words = st.sampled_from(("Hello.", "It rains.", "ü 😀")).map(lambda text: TextBlock(text=text))
images = st.just(ImageBlock(source=_PIXEL, media_type="image/png"))
thoughts = st.just(ThinkingBlock(text="Hm.", signature="c2ln"))


@st.composite
def plain_histories(draw: st.DrawFn) -> list[Message]:
    """What a model from elsewhere and its user say where nothing goes wrong: words, images, calls and answers."""
    numbers = iter(range(100))
    history: list[Message] = []

    def say(role: Role, content: Sequence[ContentBlock], model: str | None = None) -> None:
        metadata = MessageMetadata(model=model, provider=model and model.partition(":")[0])
        history.append(
            Message(id=f"{len(history):026d}", role=role, content=tuple(content), metadata=metadata, created_at=_NOW)
        )

    if draw(st.booleans()):
        say(Role.SYSTEM, [draw(words)])
    for _ in range(draw(st.integers(1, 2))):
        say(Role.USER, draw(st.lists(words | images, min_size=1, max_size=2)))
        if draw(st.booleans()):
            calls = [ToolUseBlock(id=f"tu_{encode_ulid(next(numbers))}", name="look", input={"at": "Bern"})]
            spoken: SearchStrategy[list[ContentBlock]] = st.lists(words | thoughts, max_size=1)
            say(Role.ASSISTANT, [*draw(spoken), *calls, *draw(st.lists(words, max_size=1))], "elsewhere:model")
            for call in calls:
                answer = ToolResultBlock(tool_use_id=call.id, content=(draw(words),), is_error=draw(st.booleans()))
                say(Role.TOOL, [answer])
        say(Role.ASSISTANT, draw(st.lists(words, min_size=1, max_size=2)), "elsewhere:model")
    say(Role.USER, [draw(words)])
    return history


def said(messages: Sequence[Message]) -> list[tuple[Role, list[ContentBlock]]]:
    """What counts as the same conversation: who said which blocks, in which order.

    Message ids, times and metadata do not count, as for the return trip of requests; tool ids count by their order,
    as each provider has its own; neighbouring messages of one role are one, as no provider tells them apart; and an
    image of the detail ``auto`` is one without any.
    """
    ids: dict[str, str] = {}
    found: list[tuple[Role, list[ContentBlock]]] = []
    for message in messages:
        blocks: list[ContentBlock] = []
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                ids[block.id] = f"call {len(ids)}"
                block = block.model_copy(update={"id": ids[block.id]})
            elif isinstance(block, ToolResultBlock):
                block = block.model_copy(update={"tool_use_id": ids[block.tool_use_id]})
            elif isinstance(block, ImageBlock) and block.detail == "auto":
                block = block.model_copy(update={"detail": None})
            blocks.append(block)
        if found and found[-1][0] is message.role:
            found[-1][1].extend(blocks)
        else:
            found.append((message.role, blocks))
    return found


@pytest.mark.parametrize("target", list(TARGETS))
@settings(max_examples=30)
@given(history=plain_histories())
def test_nothing_is_lost_exactly_where_all_comes_back(target: str, history: list[Message]) -> None:
    """A difference without a loss would be silent; a loss without a difference would cry wolf.

    What a wire wants beyond what was said, such as a word that stands for a missing signature, is no difference.
    """
    adapter = get_adapter(TARGETS[target])
    wire = adapter.to_wire(history, [], AdapterOptions())
    back, _, _ = adapter.from_wire_request(wire.body, RequestContext(model=TARGETS[target]))
    losses = [loss for loss in wire.losses if loss.message_id and "its own word for none" not in loss.reason]
    assert (said(back) == said(history)) == (not losses), (losses, said(history), said(back))
