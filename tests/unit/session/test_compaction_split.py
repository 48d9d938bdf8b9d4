"""Where a history may be cut. The laws hold for any history; `histories` generates them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata, Role, StopReason
from dragoman.session.history import apply_summaries
from dragoman.session.turn.compaction import HistorySplit, chunk_messages, split_at_share, split_keeping_last
from dragoman.testing.strategies import histories
from tests.unit.session.drivers import ANTHROPIC

ADAPTER = get_adapter(ANTHROPIC)


def size(messages: Sequence[Message]) -> int:
    return ADAPTER.estimate_input_tokens(messages, ()) - ADAPTER.estimate_input_tokens((), ())


def text_message(number: int, role: Role = Role.USER, **metadata: object) -> Message:
    content = (TextBlock(text=f"word {number:04} " * 50),)
    return Message(id=f"m{number}", role=role, content=content, metadata=MessageMetadata(**metadata))


def call(number: int, *ids: str, **metadata: object) -> Message:
    content = [ToolUseBlock(id=each, name="f") for each in ids]
    return Message.assistant(content, id=f"m{number}", metadata=MessageMetadata(**metadata))


def result(number: int, of: str, **metadata: object) -> Message:
    return Message.tool(of, "done", id=f"m{number}", metadata=MessageMetadata(**metadata))


def ids(messages: Sequence[Message]) -> list[int]:
    return [int(message.id[1:]) for message in messages]


SYSTEM, ASSISTANT = Role.SYSTEM, Role.ASSISTANT
A_TURN = [
    text_message(0, SYSTEM),
    text_message(1),
    call(2, "a", "b"),
    result(3, "a"),
    result(4, "b"),
    text_message(5, ASSISTANT),
    text_message(6),
]


@pytest.mark.parametrize(
    ("history", "keep_last", "summarized", "kept"),
    [
        (A_TURN, 0, [1, 2, 3, 4, 5, 6], []),
        (A_TURN, 1, [1, 2, 3, 4, 5], [6]),
        (A_TURN, 2, [1, 2, 3, 4], [5, 6]),
        (A_TURN, 3, [1], [2, 3, 4, 5, 6]),
        (A_TURN, 4, [1], [2, 3, 4, 5, 6]),
        (A_TURN, 99, [], [1, 2, 3, 4, 5, 6]),
        ([text_message(0), text_message(1, ASSISTANT, critical=True), text_message(2)], 1, [0], [1, 2]),
        ([text_message(0), text_message(1, ASSISTANT, critical=(0,)), text_message(2)], 0, [0, 2], [1]),
        ([text_message(0), call(1, "a", "b"), result(2, "a", critical=True), result(3, "b"), text_message(4)], 0, [0,
        4], [1, 2, 3]),
        ([call(0, "a"), result(1, "a"), call(2, "a"), result(3, "a")], 1, [0, 1], [2, 3]),
        ([call(0, "a"), call(1, "a"), result(2, "a"), result(3, "a")], 1, [], [0, 1, 2, 3]),
        ([call(0, "a"), text_message(1), result(2, "a")], 1, [1], [0, 2]),
        ([text_message(0, ASSISTANT, stop_reason=StopReason.PAUSE), text_message(1, ASSISTANT), text_message(2)], 2,
        [], [0, 1, 2]),
        ([text_message(0), text_message(1, SYSTEM), text_message(2)], 1, [0, 1], [2]),
        ([text_message(0, SYSTEM), text_message(1, Role.DEVELOPER), text_message(2)], 0, [2], []),
        ([], 3, [], []),
    ],
)  # fmt: skip
def test_related_messages_stay_together(
    history: list[Message], keep_last: int, summarized: list[int], kept: list[int]
) -> None:
    """Calls with their results, also if ids repeat; a paused reply with its continuation; critical messages with
    their group; and the leading instructions, always."""
    split = split_keeping_last(history, keep_last)
    assert (ids(split.summarized), ids(split.kept)) == (summarized, kept)


def test_the_newer_half_is_kept_from_the_start_of_a_turn() -> None:
    """The newer half is kept from the start of a turn, as much as fits in half of the history and half of the room."""
    history = [text_message(number, ASSISTANT if number % 2 else Role.USER) for number in range(12)]
    assert ids(split_at_share(history, 10**6, size).kept) == [6, 7, 8, 9, 10, 11]
    assert ids(split_at_share(history, size(history[:5]) * 2, size).kept) == [8, 9, 10, 11]
    assert ids(split_at_share(history, 0, size).kept) == []


def test_one_long_turn_is_cut_between_its_rounds() -> None:
    """If no user turn begins in the newer half."""
    rounds = [message for at in range(1, 21, 2) for message in (call(at, f"t{at}"), result(at + 1, f"t{at}"))]
    split = split_at_share([text_message(0), *rounds], 10**6, size)
    assert ids(split.summarized)[0] == 0
    assert ids(split.kept) == list(range(len(ids(split.summarized)), 21))
    assert split.kept[0].tool_uses
    assert len(split.kept) > 6


def separated_ids(*parts: Sequence[Message]) -> set[str]:
    """Tool ids whose call and result are in different parts; repeated ids are skipped, because they are ambiguous."""
    everything = [message for part in parts for message in part]
    calls = [block.id for message in everything for block in message.tool_uses]
    side = {block.id: place for place, part in enumerate(parts) for message in part for block in message.tool_uses}
    answered_before: set[str] = set()
    called: set[str] = set()
    for message in sorted(everything, key=lambda message: message.id):
        called |= {block.id for block in message.tool_uses}
        answered_before |= {block.tool_use_id for block in message.tool_results} - called
    return {
        block.tool_use_id
        for place, part in enumerate(parts)
        for message in part
        for block in message.tool_results
        if calls.count(block.tool_use_id) == 1
        and block.tool_use_id not in answered_before
        and side[block.tool_use_id] != place
    }


@st.composite
def marked_histories(draw: st.DrawFn) -> list[Message]:
    """Any history, some messages of which are critical."""
    history = draw(histories(max_scenes=8))
    marked = draw(st.sets(st.integers(0, 20), max_size=3))
    metadata = [message.metadata.model_copy(update={"critical": True}) for message in history]
    return [
        message.model_copy(update={"metadata": metadata[place]}) if place in marked else message
        for place, message in enumerate(history)
    ]


def is_a_partition(split: HistorySplit, history: Sequence[Message]) -> bool:
    parts = [*split.lead, *split.summarized, *split.kept]
    return sorted(map(id, parts)) == sorted(map(id, history)) and all(
        [message for message in history if any(message is each for each in part)] == list(part)
        for part in (split.lead, split.summarized, split.kept)
    )


@given(marked_histories(), st.integers(0, 12), st.integers(0, 3000))
def test_any_cut_keeps_pairs_and_covers_everything_once(history: list[Message], keep_last: int, room: int) -> None:
    """For any history, any number to keep and any budget."""
    for split in (split_keeping_last(history, keep_last), split_at_share(history, room, size)):
        assert is_a_partition(split, history)
        assert not separated_ids(split.summarized, split.kept)
        assert not any(message.metadata.critical for message in split.summarized)
    newest = split_keeping_last(history, keep_last)
    behind = history[len(newest.lead) :]
    assert all(any(message is kept for kept in newest.kept) for message in behind[max(0, len(behind) - keep_last) :])
    shared = split_at_share(history, room, size)
    least = split_keeping_last(history, 0)
    assert size(shared.kept) <= room // 2 or shared == least


@given(histories(max_scenes=8), st.integers(0, 500))
def test_chunks_are_the_whole_in_order(messages: list[Message], room: int) -> None:
    """No message twice, none missing, no pair split; a piece that does not fit cannot be shorter."""
    parts = list(chunk_messages(messages, room, size))
    assert [message for part in parts for message in part] == messages
    assert all(parts)
    assert not separated_ids(*parts)
    assert all(len(list(chunk_messages(part, 0, size))) == 1 for part in parts if size(part) > room)


@given(marked_histories(), st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=4))
def test_summaries_of_summaries_still_cover_everything_once(
    history: list[Message], steps: list[tuple[int, int]]
) -> None:
    """After any number of turns and compactions, each recorded message is either sent or covered by exactly one
    summary. The summaries that are sent cover, directly or through those that they replaced, all messages that are not.
    """
    record = list(history)
    for step, (keep_last, more) in enumerate(steps):
        split = split_keeping_last(apply_summaries(record), keep_last)
        if split.summarized:
            covered = MessageMetadata(summary_of=tuple(message.id for message in split.summarized))
            record.append(Message.user("So far.", id=f"s{step}", metadata=covered))
        record += [text_message(1000 * (step + 1) + number) for number in range(more)]
    shown = [message.id for message in apply_summaries(record)]
    summarized = [each for message in record for each in message.metadata.summary_of or ()]
    assert len(summarized) == len(set(summarized))
    assert sorted([*shown, *summarized]) == sorted(message.id for message in record)
    order = {message.id: place for place, message in enumerate(record)}
    plain = [order[message.id] for message in apply_summaries(record) if message.metadata.summary_of is None]
    assert plain == sorted(plain)


def test_a_summary_covers_only_messages_before_it() -> None:
    """A later message that happens to have a covered id is sent."""
    covering = Message.user("So far.", id="s", metadata=MessageMetadata(summary_of=("m0", "m1")))
    history = [text_message(9, SYSTEM), text_message(0), text_message(1), text_message(2), covering, text_message(0)]
    assert [message.id for message in apply_summaries(history)] == ["m9", "s", "m2", "m0"]
    alone = [covering, text_message(3)]
    assert apply_summaries(alone) == alone
