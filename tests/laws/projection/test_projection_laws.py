"""Laws of projection: any history, for any model, becomes something that the model accepts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.requests.encode_cache import CallKeys
from dragoman.adapter.requests.prepare import is_usual
from dragoman.adapter.requests.projection import Projection, project
from dragoman.adapter.requests.request_builder import Target
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role, write_message
from dragoman.testing.strategies import histories
from tests.laws.projection.targets import TARGETS


def each_target() -> Iterator[Target]:
    """All targets in turn; a failure names its target."""
    for target in TARGETS:
        note(f"projected for {target.provider}")
        yield target


def as_messages(projection: Projection) -> list[Message]:
    """The turns as a history."""
    return [
        Message(
            id=f"turn-{index}",
            role=turn.role,
            content=turn.blocks,
            metadata=turn.message.metadata,
            created_at=turn.message.created_at,
        )
        for index, turn in enumerate(projection.turns)
    ]


def joined_messages(projection: Projection) -> set[str]:
    """The messages that were sent as one with the message before them."""
    return {loss.message_id for loss in projection.losses if "sent as one" in loss.reason}


def calls_of(turn: Turn) -> list[str]:
    return [block.id for block in turn.blocks if isinstance(block, ToolUseBlock)]


def results_of(turn: Turn) -> list[str]:
    return [block.tool_use_id for block in turn.blocks if isinstance(block, ToolResultBlock)]


def exchanges(turns: Sequence[Turn], *, apart: bool) -> Iterator[tuple[list[str], list[str]]]:
    """The calls of each turn of the assistant, or of neighbouring ones, and the results right after them."""
    calls: list[str] = []
    answers: list[str] = []
    previous = Role.TOOL
    for turn in turns:
        if turn.role is Role.ASSISTANT and (previous is Role.TOOL or (apart and calls)):
            yield calls, answers
            calls, answers = [], []
        calls = calls + calls_of(turn)
        answers = answers + results_of(turn)
        previous = turn.role
    yield calls, answers


@given(history=histories())
def test_projection_is_deterministic_and_leaves_the_history_alone(history: list[Message]) -> None:
    """The same history gives the same turns and losses, and does not change."""
    for target in each_target():
        before = [write_message(message) for message in history]
        assert project(history, target) == project(history, target)
        assert [write_message(message) for message in history] == before


@given(history=histories())
def test_no_step_changes_a_usual_conversation(history: list[Message]) -> None:
    """Whatever counts as usual is sent without projection: the projection would return the same turns, and no loss."""
    for target in each_target():
        repaired = [
            message for message in as_messages(project(history, target)) if not message.metadata.cache_breakpoints
        ]
        for messages in (history, repaired):
            turns = tuple(map(Turn.of, messages))
            if is_usual(turns, target, CallKeys()):
                assert project(messages, target) == Projection(turns, ())


def test_texts_and_rounds_of_tools_are_usual() -> None:
    """Most conversations of agents are of this kind. The other law would hold if none were."""
    call = ToolUseBlock(id="tu_1", name="look", input={"path": "a"})
    result = ToolResultBlock(tool_use_id="tu_1", content=(TextBlock(text="Nothing."),))
    asked = [Message.user("Look."), Message(role=Role.ASSISTANT, content=(TextBlock(text="I look."), call))]
    answered = [*asked, Message(role=Role.TOOL, content=(result,))]
    open_turns, turns = list(map(Turn.of, asked)), list(map(Turn.of, answered))
    for target in TARGETS:
        assert is_usual(turns, target, CallKeys()) is bool(target.capabilities.supports_tools)
        assert not is_usual(open_turns, target, CallKeys())
        assert not is_usual(turns, target, CallKeys().with_calls(["tu_1"]))


@given(history=histories())
def test_projection_is_idempotent(history: list[Message]) -> None:
    """A request that fits a model is not changed again."""
    for target in each_target():
        once = project(history, target)
        if joined_messages(once) and len({message.metadata.model for message in history}) > 1:
            continue  # a message of two models cannot be written back: a message has one issuer
        again = project(as_messages(once), target)
        assert [(turn.role, turn.blocks) for turn in again.turns] == [(turn.role, turn.blocks) for turn in once.turns]
        assert again.losses == ()


@given(history=histories())
def test_every_call_is_answered_once_right_after_its_turn(history: list[Message]) -> None:
    """Between calls and the next text are exactly their results.

    If the wire takes neighbouring messages of the assistant as one turn, the results may follow the last of them.
    """
    for target in each_target():
        turns = project(history, target).turns
        call_ids: list[str] = []
        for is_dialogue, group in groupby(turns, key=lambda turn: turn.role in (Role.ASSISTANT, Role.TOOL)):
            if not is_dialogue:
                continue
            for calls, answers in exchanges(list(group), apart=not target.capabilities.supports_neighbours):
                assert Counter(answers) == Counter(calls)
                call_ids += calls
        assert max(Counter(call_ids).values(), default=1) == 1, "two calls share a key"
        assert Counter(call_ids) == Counter(key for turn in turns for key in results_of(turn)), "an orphan was sent"


ALLOWED = {
    Role.USER: {"text", "provider", "image", "audio", "video", "document"},
    Role.SYSTEM: {"text", "provider"},
    Role.DEVELOPER: {"text", "provider", "image", "audio", "video", "document"},
    Role.ASSISTANT: {
        "text", "provider", "image", "audio", "video", "document", "tool_use", "thinking", "redacted_thinking",
    },
    Role.TOOL: {"tool_result", "provider"},
}  # fmt: skip
INSIDE_RESULTS = {"text", "provider", "image", "audio", "video", "document"}


@given(history=histories())
def test_nothing_remains_that_the_model_cannot_take(history: list[Message]) -> None:
    """Roles, kinds of blocks, media, thinking, native blocks and empty texts: all are within the capabilities."""
    for target in each_target():
        turns = project(history, target).turns
        for turn in turns:
            assert {block.type for block in turn.blocks} <= ALLOWED[turn.role]
            for block in turn.blocks:
                if isinstance(block, ToolResultBlock):
                    assert {part.type for part in block.content} <= INSIDE_RESULTS
                    assert all(can_take(part, turn, turn.message, target, inside=True) for part in block.content)
                assert can_take(block, turn, message_of_block(block, turn, history), target)
        assert roles_fit([turn.role for turn in turns], target.capabilities)
        if not target.capabilities.supports_empty_text:
            assert all(turn.blocks for turn in turns)


def message_of_block(block: ContentBlock, turn: Turn, history: Sequence[Message]) -> Message:
    """The message that holds the block, which joined another one or was made because of one."""
    return next((message for message in history if any(block is each for each in message.content)), turn.message)


def can_take(block: ContentBlock, turn: Turn, message: Message, target: Target, *, inside: bool = False) -> bool:
    abilities, policy = target.capabilities, target.capabilities.thinking_policy
    if isinstance(block, MEDIA_BLOCKS):
        flag = {"image": "images", "audio": "audio", "video": "video", "document": "documents"}[block.type]
        return (
            bool(getattr(abilities, f"supports_{flag}"))
            and (abilities.supports_tool_result_media == "native" if inside else turn.role in abilities.media_roles)
            and block.source.kind != "file_ref"
            and (bool(abilities.supports_media_urls) or block.source.kind != "url")
            and block.source.kind in abilities.media_sources.get(block.type, (block.source.kind,))
        )
    if isinstance(block, ThinkingBlock):
        own = policy.can_read(message.metadata.model) and block.signature is not None
        return own or (policy.accepts_unsigned and block.signature is None)
    if isinstance(block, RedactedThinkingBlock):
        return policy.can_read(message.metadata.model)
    if isinstance(block, ProviderBlock):
        return block.provider in (target.provider, *abilities.native_from)
    if isinstance(block, (ToolUseBlock, ToolResultBlock)):
        return bool(abilities.supports_tools)
    if isinstance(block, TextBlock) and not inside:
        said_itself = bool(block.text and Turn.of(message).raw(target.provider))
        return bool(abilities.supports_empty_text or block.text.strip()) or said_itself
    return True


def roles_fit(roles: Sequence[Role], abilities: AdapterCapabilities) -> bool:
    instructing = [role in (Role.SYSTEM, Role.DEVELOPER) for role in roles]
    leading = next((index for index, role in enumerate(instructing) if not role), len(roles))
    return (
        (bool(abilities.supports_developer_role) or Role.DEVELOPER not in roles)
        and (bool(abilities.supports_system_prompt) or not any(instructing))
        and (bool(abilities.supports_mid_conversation_system) or not any(instructing[leading:]))
        and (bool(abilities.supports_prefill) or roles[-1:] != [Role.ASSISTANT])
    )


@given(history=histories())
def test_every_difference_has_a_loss(history: list[Message]) -> None:
    """A block that is sent in another form, a changed role, an invented turn."""
    for target in each_target():
        projection = project(history, target)
        named = {(loss.message_id, loss.block_index) for loss in projection.losses}
        of_message = {loss.message_id for loss in projection.losses}
        sent = {(turn.message.id, origin): block for turn in projection.turns for block, origin in turn.iter_blocks()}
        for message in history:
            for index, block in enumerate(message.content):
                if sent.get((message.id, index)) != block and not is_renamed_result(
                    block, sent.get((message.id, index))
                ):
                    assert (message.id, index) in named or message.id in joined_messages(projection)
        for turn in projection.turns:
            if turn.role is not turn.message.role or SYNTHETIC in turn.origins:
                assert turn.message.id in of_message or joined_messages(projection)
        message_ids = {turn.message.id for turn in projection.turns}
        for message in history:
            placeholder = message.role in (Role.SYSTEM, Role.DEVELOPER) and not message.content
            assert message.id in message_ids | of_message or placeholder


def is_renamed_result(original: ContentBlock, sent: ContentBlock | None) -> bool:
    """Whether a result differs only in its id, which follows the id of its call; the call's own loss names that."""
    return (
        isinstance(original, ToolResultBlock)
        and isinstance(sent, ToolResultBlock)
        and sent.model_copy(update={"tool_use_id": original.tool_use_id}) == original
    )


@given(history=histories())
def test_a_longer_history_only_appends(history: list[Message]) -> None:
    """Only placeholder turns at the very end (an interrupted result, a request to continue) are replaced by what comes
    later.

    A message of the assistant that joins the one before it makes that one longer.
    """
    for target in each_target():
        shorter = project((), target)
        for length in range(1, len(history) + 1):
            longer = project(history[:length], target)
            pairs = zip(shorter.turns, longer.turns, strict=False)
            kept = next((index for index, (old, new) in enumerate(pairs) if old != new), len(shorter.turns))
            gone = shorter.turns[min(kept, len(longer.turns)) :]
            if gone and joined_messages(longer) > joined_messages(shorter):
                assert longer.turns[kept].blocks[: len(gone[0].blocks)] == gone[0].blocks
                gone = gone[1:]
            assert all(set(turn.origins) <= {SYNTHETIC} for turn in gone)
            shorter = longer


@given(history=histories(max_scenes=3), data=st.data())
def test_a_critical_block_is_never_lost(history: list[Message], data: st.DataObject) -> None:
    """A critical block is never lost: a history with everything critical projects without a loss of content, or not at
    all.
    """
    for target in each_target():
        lossy = [loss for loss in project(history, target).losses if loss.severity is Severity.WARNING]
        marked = [mark_critical(message) for message in history]
        if not lossy:
            assert project(marked, target).losses == project(history, target).losses
            continue
        with pytest.raises(CriticalLossError, match="critical"):
            project(marked, target)
        loss = data.draw(st.sampled_from(lossy))
        with pytest.raises(CriticalLossError):
            project(list(with_critical(history, loss)), target)


def mark_critical(message: Message, marked: bool | tuple[int, ...] = True) -> Message:
    return message.model_copy(update={"metadata": message.metadata.model_copy(update={"critical": marked})})


def with_critical(history: Sequence[Message], loss: Loss) -> Iterator[Message]:
    """The history with just that block marked; a loss without an index is about a block that some step replaced."""
    for message in history:
        index = 0 if loss.block_index == SYNTHETIC else loss.block_index
        yield mark_critical(message, (index,)) if message.id == loss.message_id else message
