"""Splits a history for a compaction: into what a summary replaces and what stays. No I/O."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason

Size = Callable[[Sequence[Message]], int]
"""Estimates the tokens of some messages."""

_LINKS = ("prompt_request_id", "resource_request_id")
"""Fields in which blocks other than tool blocks name their request."""


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """A history in three parts. Each message is in one of them; the order stays."""

    lead: tuple[Message, ...]
    """The system and developer messages at the start."""
    summarized: tuple[Message, ...]
    """The messages that a summary replaces."""
    kept: tuple[Message, ...]
    """The messages that stay: the newest, the critical, and those linked to either."""


def apply_summaries(history: Iterable[Message], before: Sequence[Message] = ()) -> list[Message]:
    """Return the messages that a request contains. A summary covers only messages recorded before it, and takes the
    place of the first of them. ``before`` is what a request contained before these messages."""
    visible = list(before)
    for message in history:
        if not (summary_of := message.metadata.summary_of):
            visible.append(message)
            continue
        covered = set(summary_of)
        positions = [position for position, earlier in enumerate(visible) if earlier.id in covered]
        if positions:
            first = positions[0]
            visible[first:] = [message, *(earlier for earlier in visible[first:] if earlier.id not in covered)]
        else:
            visible.append(message)
    return visible


def split_keeping_last(history: Sequence[Message], keep_last: int) -> HistorySplit:
    """Keep that many messages at the end, and more if a call would be separated from its result."""
    lead, body = _split_lead(history)
    return _split_at(lead, body, group_linked(body), max(0, len(body) - keep_last))


def split_at_share(history: Sequence[Message], max_tokens: int, size: Size) -> HistorySplit:
    """Keep the newer half of the history, at most half of ``max_tokens``: whole turns of the user if one fits, else
    whole rounds of tools.
    """
    lead, body = _split_lead(history)
    groups = group_linked(body)
    kept_tokens = min(max_tokens, size(body)) // 2
    turns = [start for start, message in enumerate(body) if start and message.role is Role.USER]
    for starts in (turns, range(1, len(body))):
        first = bisect_left(
            starts, True, key=lambda start: size(_split_at(lead, body, groups, start).kept) <= kept_tokens
        )
        if first < len(starts):
            return _split_at(lead, body, groups, starts[first])
    return _split_at(lead, body, groups, len(body))


def chunk_messages(summarized: Sequence[Message], max_tokens: int, size: Size) -> Iterator[tuple[Message, ...]]:
    """Yield the messages in the longest chunks of at most ``max_tokens``, without separating a call from its result.
    A chunk that cannot be split is longer."""
    ends, start = _group_ends(group_linked(summarized)), 0
    while ends:
        fitting_count = bisect_left(ends, True, key=lambda end: size(summarized[start:end]) > max_tokens)
        chunk_count = max(1, fitting_count)
        yield tuple(summarized[start : ends[chunk_count - 1]])
        start, ends = ends[chunk_count - 1], ends[chunk_count:]


def _split_lead(history: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    lead = tuple(takewhile(lambda message: message.role in (Role.SYSTEM, Role.DEVELOPER), history))
    return lead, tuple(history[len(lead) :])


def _split_at(lead: tuple[Message, ...], body: tuple[Message, ...], groups: Sequence[int], start: int) -> HistorySplit:
    """Split before that message; linked messages stay together."""
    kept_groups = {
        group
        for index, (group, message) in enumerate(zip(groups, body, strict=True))
        if index >= start or message.metadata.critical
    }
    is_kept = [group in kept_groups for group in groups]
    summarized = tuple(message for message, keep in zip(body, is_kept, strict=True) if not keep)
    return HistorySplit(lead, summarized, tuple(message for message, keep in zip(body, is_kept, strict=True) if keep))


def _group_ends(groups: Sequence[int]) -> list[int]:
    """Return the positions at which the messages can be split without separating linked ones; the last is the end."""
    last = {group: index for index, group in enumerate(groups)}
    group_ends, reach = [], 0
    for index, group in enumerate(groups):
        reach = max(reach, last[group])
        if reach == index:
            group_ends.append(index + 1)
    return group_ends


def group_linked(messages: Sequence[Message]) -> list[int]:
    """Return a group number for each message. Linked messages share one: calls and their results, the parts of a paused
    reply, and messages with the same id.
    """
    parents = list(range(len(messages)))

    def find_root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    open_calls: dict[str, list[int]] = {}
    answered: set[str] = set()
    first_with: dict[tuple[str, str], int] = {}
    for index, message in enumerate(messages):
        linked = [first_with.setdefault(key, index) for key in _link_keys(message)]
        if index and messages[index - 1].stop_reason is StopReason.PAUSE:
            linked.append(index - 1)
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                # An id that is reused after its result belongs to another call.
                if block.id in answered:
                    answered.remove(block.id)
                    open_calls[block.id] = []
                open_calls.setdefault(block.id, []).append(index)
            elif isinstance(block, ToolResultBlock):
                linked += open_calls.get(block.tool_use_id, ())
                answered.add(block.tool_use_id)
        for other in linked:
            parents[find_root(index)] = find_root(other)
    return [find_root(index) for index in range(len(messages))]


def _link_keys(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the keys that link a message to others, apart from tool calls."""
    yield "id", message.id
    for block in message.content:
        yield from _links(block)


def _links(block: ContentBlock) -> Iterator[tuple[str, str]]:
    for name in _LINKS:
        value = getattr(block, name, None)
        if isinstance(value, str) and value:
            yield name, value
