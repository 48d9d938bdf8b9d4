"""Tool calls and results of a document: ids, names, and the split into messages."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.ids import new_tool_use_id
from dragoman.canonical.message import Message, MessageMetadata, Role

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
    calls = (block for message in messages for block in message.content if isinstance(block, ToolUseBlock))
    return {call.id: call.name for call in calls}


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
