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
class Cut:
    """A history in three parts; each message is in one of them, and each keeps the history's order."""

    lead: tuple[Message, ...]
    """The system's and developer's messages in front."""
    told: tuple[Message, ...]
    """What a summary is to stand for."""
    kept: tuple[Message, ...]
    """What stays whole: the newest messages, critical ones, and whatever belongs to these."""


def cut_to_last(history: Sequence[Message], keep_last: int) -> Cut:
    """Keeps that many messages at the end, and more where a call and its result would be parted."""
    lead, body = _parts(history)
    return _cut(lead, body, threads(body), max(0, len(body) - keep_last))


def cut_to_share(history: Sequence[Message], room: int, size: Size) -> Cut:
    """Keeps the newer half of the history, or as much of it as takes half of ``room`` tokens; whole turns of the user
    where one fits, else whole rounds of tools.
    """
    lead, body = _parts(history)
    together = threads(body)
    share = min(room, size(body)) // 2
    turns = [start for start, message in enumerate(body) if start and message.role is Role.USER]
    for starts in (turns, range(1, len(body))):
        first = bisect_left(starts, True, key=lambda start: size(_cut(lead, body, together, start).kept) <= share)
        if first < len(starts):
            return _cut(lead, body, together, starts[first])
    return _cut(lead, body, together, len(body))


def pieces(told: Sequence[Message], room: int, size: Size) -> Iterator[tuple[Message, ...]]:
    """The messages in runs of at most ``room`` tokens, as long as can be, that part no call from its result. A run
    that cannot be made so short is longer."""
    ends, start = _seams(threads(told)), 0
    while ends:
        fitting = bisect_left(ends, True, key=lambda end: size(told[start:end]) > room)
        taken = max(1, fitting)
        yield tuple(told[start : ends[taken - 1]])
        start, ends = ends[taken - 1], ends[taken:]


def _parts(history: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    lead = tuple(takewhile(lambda message: message.role in (Role.SYSTEM, Role.DEVELOPER), history))
    return lead, tuple(history[len(lead) :])


def _cut(lead: tuple[Message, ...], body: tuple[Message, ...], together: Sequence[int], start: int) -> Cut:
    """The cut in front of that message, with all that hangs together on one side of it."""
    whole = {
        thread
        for place, (thread, message) in enumerate(zip(together, body, strict=True))
        if place >= start or message.metadata.critical
    }
    stays = [thread in whole for thread in together]
    told = tuple(message for message, stay in zip(body, stays, strict=True) if not stay)
    return Cut(lead, told, tuple(message for message, stay in zip(body, stays, strict=True) if stay))


def _seams(together: Sequence[int]) -> list[int]:
    """The places behind which nothing belongs to what is in front of them; the end is the last one."""
    last = {thread: place for place, thread in enumerate(together)}
    found, reach = [], 0
    for place, thread in enumerate(together):
        reach = max(reach, last[thread])
        if reach == place:
            found.append(place + 1)
    return found


def threads(messages: Sequence[Message]) -> list[int]:
    """A number for each message, the same for those that must stay together: calls and their results, the messages
    that one paused reply is made of, and what bears the same id.
    """
    leader = list(range(len(messages)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    open_calls: dict[str, list[int]] = {}
    answered: set[str] = set()
    first_with: dict[tuple[str, str], int] = {}
    for place, message in enumerate(messages):
        linked = [first_with.setdefault(key, place) for key in _keys(message)]
        if place and messages[place - 1].stop_reason is StopReason.PAUSE:
            linked.append(place - 1)
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                # An id that is used again after its result means another call.
                if block.id in answered:
                    answered.remove(block.id)
                    open_calls[block.id] = []
                open_calls.setdefault(block.id, []).append(place)
            elif isinstance(block, ToolResultBlock):
                linked += open_calls.get(block.tool_use_id, ())
                answered.add(block.tool_use_id)
        for other in linked:
            leader[find(place)] = find(other)
    return [find(place) for place in range(len(messages))]


def _keys(message: Message) -> Iterator[tuple[str, str]]:
    """What a message shares with those that it belongs to, the calls of tools aside."""
    yield "id", message.id
    for block in message.content:
        yield from _links(block)


def _links(block: ContentBlock) -> Iterator[tuple[str, str]]:
    for name in _LINKS:
        value = getattr(block, name, None)
        if isinstance(value, str) and value:
            yield name, value
