"""Tool calls and results of a document: ids, names, the split into messages, and which call a result answers.

Results whose id was answered already, given to the calls that are still open.

Some programs write the id of the first call into each result, and some models repeat the id of a call in one turn.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.ids import new_tool_use_id
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.formats.document import objects_in
from dragoman.formats.reading.fields import source_losses

_Place = tuple[int, int]
"""The index of a message, and that of a block in it."""


@dataclass(slots=True)
class _Turn:
    """The calls of neighbouring messages of the assistant, and the results after them."""

    calls: list[tuple[_Place, ToolUseBlock]] = field(default_factory=list)
    results: list[tuple[_Place, ToolResultBlock]] = field(default_factory=list)


class OpenCalls:
    """The calls without a result, by id and by the name of the tool, in order; each step takes the same short time."""

    def __init__(self) -> None:
        self._in_order: deque[_OpenCall] = deque()
        self._by_id: dict[str, deque[_OpenCall]] = {}
        self._by_name: dict[str, deque[_OpenCall]] = {}

    def add(self, call_id: str, name: str) -> None:
        call = _OpenCall(call_id)
        self._in_order.append(call)
        self._by_id.setdefault(call_id, deque()).append(call)
        self._by_name.setdefault(name, deque()).append(call)

    def answer(self, call_id: str) -> bool:
        """Close the first call of that id; return whether there is one."""
        call = _first(self._by_id.get(call_id))
        if call is not None:
            call.is_answered = True
        return call is not None

    def first(self, name: str | None = None) -> str | None:
        """Return the id of the first open call, of the tool of that name."""
        call = _first(self._in_order if name is None else self._by_name.get(name))
        return call.id if call is not None else None


@dataclass(slots=True)
class _OpenCall:
    id: str
    is_answered: bool = False


def _first(calls: deque[_OpenCall] | None) -> _OpenCall | None:
    while calls and calls[0].is_answered:
        calls.popleft()
    return calls[0] if calls else None


def pair_repeated(
    messages: Sequence[Message], paths: Sequence[str], native_ids: Mapping[str, str] | None = None
) -> list[Message]:
    """Return the messages with each call answered at most once, if the document has enough calls.

    A result whose call has a result already answers the next open call of its turn, as results stand in the order of
    their calls. Each such guess is a loss, and so is a result that no open call is left for. ``paths`` are those of the
    messages in the document. ``native_ids`` are the document's own ids of calls: results of one id that several calls
    of a turn share answer these in order.
    """
    answers = Counter(block.tool_use_id for message in messages for block in message.tool_results)
    known = native_ids or {}
    if max(answers.values(), default=0) < 2 and len(set(known.values())) == len(known):
        return list(messages)
    pairing = _Pairing(paths, known, [call for message in messages for call in message.tool_uses])
    for turn in _turns(messages):
        pairing.add(turn)
    found = list(messages)
    for index, call_ids in pairing.changes.items():
        content = tuple(
            block.model_copy(update={"tool_use_id": call_ids[position]}) if position in call_ids else block
            for position, block in enumerate(found[index].content)
        )
        changed: dict[str, Any] = {"content": content}
        if found[index].metadata.parent_tool_use_id is not None and 0 in call_ids:
            changed["metadata"] = found[index].metadata.model_copy(update={"parent_tool_use_id": call_ids[0]})
        found[index] = found[index].model_copy(update=changed)
    return found


def report_repeated(groups: Sequence[Sequence[Message]], paths: Sequence[str]) -> None:
    """Report each result whose call has a result already, of a format that holds histories of ours with all their ids:
    these are read as they are.
    """
    open_calls = Counter(call.id for group in groups for message in group for call in message.tool_uses)
    for group, path in zip(groups, paths, strict=True):
        for message in group:
            for result in message.tool_results:
                if result.tool_use_id in open_calls:
                    open_calls[result.tool_use_id] -= 1
                    if open_calls[result.tool_use_id] < 0:
                        reason = "the call of this result has a result already: it stays"
                        source_losses().add(path, reason, kind=LossKind.DUPLICATE_TOOL_ID)


def _turns(messages: Sequence[Message]) -> Iterator[_Turn]:
    turn, before = _Turn(), None
    for index, message in enumerate(messages):
        if message.role in (Role.SYSTEM, Role.DEVELOPER):
            continue
        if message.role is Role.USER or (message.role is Role.ASSISTANT and before is not Role.ASSISTANT):
            yield turn
            turn = _Turn()
        before = message.role
        for position, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                turn.calls.append(((index, position), block))
            elif isinstance(block, ToolResultBlock):
                turn.results.append(((index, position), block))
    yield turn


class _Pairing:
    def __init__(self, paths: Sequence[str], native_ids: Mapping[str, str], calls: Sequence[ToolUseBlock]) -> None:
        self.changes: dict[int, dict[int, str]] = {}
        """The calls that results answer, if those are others than their ids say, by message and block."""
        self._paths = paths
        self._native_ids = native_ids
        self._open = Counter(call.id for call in calls)
        """How many results each id may still get: a history of ours may hold two calls of one id."""
        self._known = frozenset(self._open)

    def add(self, turn: _Turn) -> None:
        sharing: dict[str, deque[str]] = {}
        for place, call in turn.calls:
            same = sharing.setdefault(self._native_ids.get(call.id, call.id), deque())
            if same and same[-1] != call.id:
                reason = "the id of a call occurs again in its turn: the call gets an id of its own"
                self._report(place, reason, severity=Severity.INFO)
            same.append(call.id)
        repeated = [place for place, result in turn.results if not self._is_first(place, result, sharing)]
        open_calls = deque(call for _, call in turn.calls if self._open[call.id])
        for place in repeated:
            if not open_calls:
                self._report(place, "the call of this result has a result already, and no other call is open: it stays")
                continue
            call = open_calls.popleft()
            self._open[call.id] -= 1
            self.changes.setdefault(place[0], {})[place[1]] = call.id
            reason = "the call of this result has a result already: it is given to the next open call"
            self._report(place, f"{reason}, of {call.name[:80]!r}")

    def _is_first(self, place: _Place, result: ToolResultBlock, sharing: Mapping[str, deque[str]]) -> bool:
        """Whether a call of the result's id has no result yet. The result then answers the first of these."""
        named = result.tool_use_id
        if named not in self._known:  # it answers no call of the document, however often
            return True
        same = sharing.get(self._native_ids.get(named, named), deque([named]))
        call_id = same.popleft() if same else named
        if not self._open[call_id]:
            return False
        self._open[call_id] -= 1
        if call_id != named:
            self.changes.setdefault(place[0], {})[place[1]] = call_id
        return True

    def _report(self, place: _Place, reason: str, *, severity: Severity = Severity.WARNING) -> None:
        source_losses().add(self._paths[place[0]], reason, kind=LossKind.DUPLICATE_TOOL_ID, severity=severity)


def native_paths(messages: Sequence[Message], entries: Any, path: str) -> list[str]:
    """Return for each message with calls or results the path of the entry with the first of these.

    The calls of a provider's list are in the order of its messages, and so are the results. ``path`` is that of the
    list, which is the path of all other messages, and of all messages if the list has other calls or results.
    """
    places: list[list[int]] = [[], []]
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        content, calls = entry.get("content"), entry.get("tool_calls")
        parts = objects_in(content)
        kinds = [entry.get("type"), *(part.get("type") for part in parts), *(key for part in parts for key in part)]
        called = sum(kind in _CALLS for kind in kinds) + (len(calls) if isinstance(calls, list) else 0)
        answered = sum(kind in _RESULTS for kind in kinds) + (entry.get("role") in ("tool", "function"))
        places[0] += [index] * called
        places[1] += [index] * answered
    found, used = [path] * len(messages), [0, 0]
    for index, message in enumerate(messages):
        for which, blocks in enumerate((message.tool_uses, message.tool_results)):
            if blocks and used[which] < len(places[which]):
                found[index] = f"{path}[{places[which][used[which]]}]"
            used[which] += len(blocks)
    return found if used == [len(place) for place in places] else [path] * len(messages)


_CALLS = ("function_call", "custom_tool_call", "tool_use", "toolUse")
_RESULTS = ("function_call_output", "custom_tool_call_output", "tool_result", "toolResult")


_CANONICAL = re.compile(r"tu_[0-9A-HJKMNP-TV-Z]{26}")


class ToolIdReader:
    """The ids of one document. Canonical ids are kept; any other id gets a canonical one for each call that uses it.

    A result belongs to the first unanswered call with its id, or else to the latest call with that id.
    """

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._latest: dict[str, str] = {}
        self._taken: set[str] = set()
        self._before: Role | None = None
        self.native_ids: dict[str, str] = {}
        """The document's ids by ours, for everything read since this was last cleared."""

    def call_id(self, native: str) -> str:
        canonical = self._to_canonical(native)
        self._open.setdefault(native, []).append(canonical)
        self._latest[native] = canonical
        return canonical

    def result_id(self, native: str) -> str:
        self._before = Role.TOOL  # some formats hold results in messages of the assistant
        waiting = self._open.get(native)
        found = waiting.pop(0) if waiting else self._latest.get(native)
        if found is None:
            return self._to_canonical(native)
        if found != native:
            self.native_ids[found] = native
        return found

    def reserve(self, calls: Iterable[ToolUseBlock]) -> None:
        """Keep the ids of these calls, whatever their form."""
        for call in calls:
            self._taken.add(call.id)
            self._open.setdefault(call.id, []).append(call.id)
            self._latest[call.id] = call.id

    def start_turn(self, role: Role, *, has_results: bool) -> None:
        """Start a message. Calls that have no answer when a message of another role begins never get one.

        ``has_results``: the message holds results, whatever its role.
        """
        if not has_results and not (role is self._before is Role.ASSISTANT):
            self._open.clear()
        self._before = role

    def pop_native_ids(self) -> dict[str, str]:
        collected, self.native_ids = self.native_ids, {}
        return collected

    def _to_canonical(self, native: str) -> str:
        if _CANONICAL.fullmatch(native) and native not in self._taken:
            self._taken.add(native)
            return native
        canonical = new_tool_use_id()
        if native:
            self.native_ids[canonical] = native
        return canonical


def tool_names_by_id(messages: Iterable[Message]) -> dict[str, str]:
    """Return the tool name of each call, by call id."""
    return {call.id: call.name for message in messages for call in message.tool_uses}


def split_results(role: Role, blocks: Sequence[ContentBlock], fields: Mapping[str, Any]) -> list[Message]:
    """Return each result in a message of its own, as the canonical form requires, and the other blocks in others.

    ``fields`` are those of the messages, with ``metadata``; the first message gets their id. Other blocks in
    a tool message stay the tool's: they join the result before them, or the first one.
    """
    groups: list[tuple[Role, list[ContentBlock]]] = []
    for block in _join_to_results(blocks) if role is Role.TOOL else blocks:
        if isinstance(block, ToolResultBlock):
            groups.append((Role.TOOL, [block]))
        elif groups and groups[-1][0] is role:
            groups[-1][1].append(block)
        else:
            groups.append((role, [block]))
    messages = []
    for index, (group_role, content) in enumerate(groups or [(role, [])]):
        message_fields = {name: value for name, value in fields.items() if index == 0 or name != "id"}
        metadata: MessageMetadata = message_fields["metadata"]
        parent = content[0].tool_use_id if content and isinstance(content[0], ToolResultBlock) else None
        if metadata.parent_tool_use_id != parent:
            message_fields["metadata"] = metadata.model_copy(update={"parent_tool_use_id": parent})
        messages.append(Message(role=group_role, content=tuple(content), **message_fields))
    return messages


def _join_to_results(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Return results only. Without any, the blocks become one that answers no call: they are not input of a user."""
    results: list[ToolResultBlock] = []
    early: list[ContentBlock] = []
    for block in blocks:
        if isinstance(block, ToolResultBlock):
            results.append(block.model_copy(update={"content": (*early, *block.content)}) if early else block)
            early = []
        elif results:
            results[-1] = results[-1].model_copy(update={"content": (*results[-1].content, block)})
        else:
            early.append(block)
    if early:
        results.append(ToolResultBlock(tool_use_id=new_tool_use_id(), content=tuple(early)))
    return [*results]
