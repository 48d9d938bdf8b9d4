"""Where a history may be cut: which messages a summary may stand for, and which stay whole."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, StopReason

Size = Callable[[Sequence[Message]], int]
"""Estimated tokens of some messages."""

_LINKS = ("prompt_request_id", "resource_request_id")
"""Fields by which other blocks name their request."""


@dataclass(frozen=True, slots=True)
class HistorySplit:
    """A history in three parts; each message is in one of them, and each keeps the history's order."""

    lead: tuple[Message, ...]
    """The system's and developer's messages in front."""
    summarized: tuple[Message, ...]
    """What a summary is to stand for."""
    kept: tuple[Message, ...]
    """What stays whole: the newest messages, critical ones, and whatever belongs to these."""


def split_keeping_last(history: Sequence[Message], keep_last: int) -> HistorySplit:
    """Keeps that many messages at the end, and more where a call and its result would be parted."""
    lead, body = _split_lead(history)
    return _split_at(lead, body, group_linked(body), max(0, len(body) - keep_last))


def split_at_share(history: Sequence[Message], max_tokens: int, size: Size) -> HistorySplit:
    """Keeps the newer half of the history, or as much of it as takes half of ``room`` tokens; whole turns of the user
    where one fits, else whole rounds of tools.
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
    """The messages in runs of at most ``room`` tokens, as long as can be, that part no call from its result. A run
    that cannot be made so short is longer."""
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
    """The cut in front of that message, with all that hangs together on one side of it."""
    kept_groups = {
        group
        for index, (group, message) in enumerate(zip(groups, body, strict=True))
        if index >= start or message.metadata.critical
    }
    is_kept = [group in kept_groups for group in groups]
    summarized = tuple(message for message, keep in zip(body, is_kept, strict=True) if not keep)
    return HistorySplit(lead, summarized, tuple(message for message, keep in zip(body, is_kept, strict=True) if keep))


def _group_ends(groups: Sequence[int]) -> list[int]:
    """The places behind which nothing belongs to what is in front of them; the end is the last one."""
    last = {group: index for index, group in enumerate(groups)}
    group_ends, reach = [], 0
    for index, group in enumerate(groups):
        reach = max(reach, last[group])
        if reach == index:
            group_ends.append(index + 1)
    return group_ends


def group_linked(messages: Sequence[Message]) -> list[int]:
    """A number for each message, the same for those that must stay together: calls and their results, the messages
    that one paused reply is made of, and what bears the same id.
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
                # An id that is used again after its result means another call.
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
    """What a message shares with those that it belongs to, the calls of tools aside."""
    yield "id", message.id
    for block in message.content:
        yield from _links(block)


def _links(block: ContentBlock) -> Iterator[tuple[str, str]]:
    for name in _LINKS:
        value = getattr(block, name, None)
        if isinstance(value, str) and value:
            yield name, value
