"""The invariants of a history, as one table and one function. Nothing here raises.

Source: docs/reference/canonical.md#invariants.
"""

import re
from collections.abc import Sequence

from dragoman.canonical.blocks import ToolResultBlock, UnknownBlock
from dragoman.canonical.message import Message, MessageStatus, Role

_MEDIA = frozenset({"image", "audio", "video", "document"})
_RESOURCES = frozenset({"resource", "resource_ref", "prompt_request", "prompt_result"})

ALLOWED_BLOCKS: dict[Role, frozenset[str]] = {
    Role.USER: frozenset({"text", "provider"}) | _MEDIA | _RESOURCES,
    Role.ASSISTANT: frozenset({"text", "tool_use", "thinking", "redacted_thinking", "provider"}) | _MEDIA | _RESOURCES,
    Role.TOOL: frozenset({"tool_result"}),
    Role.SYSTEM: frozenset({"text", "provider"}),
    Role.DEVELOPER: frozenset({"text", "provider"}) | _MEDIA,
}
"""The block kinds that each role may have. Images and other media of an assistant are generated output."""

_CANONICAL_ID = re.compile(r"tu_[0-9A-HJKMNP-TV-Z]{26}")


def check(history: Sequence[Message]) -> list[str]:
    """Return every violation as one sentence that starts with the message's index; an empty list if there are none."""
    return [
        *(violation for index, message in enumerate(history) for violation in _check_message(index, message)),
        *_check_references(history),
    ]


def _check_message(index: int, message: Message) -> list[str]:
    if message.metadata.status is MessageStatus.PARTIAL:
        return []
    violations: list[str] = []
    role, content, metadata = message.role, message.content, message.metadata
    if not content and role not in (Role.SYSTEM, Role.DEVELOPER):
        violations.append("has no content")
    violations += [
        f"content[{position}]: a {role} message cannot hold a {block.type}"
        for position, block in enumerate(content)
        if role in ALLOWED_BLOCKS and block.type not in ALLOWED_BLOCKS[role] and not isinstance(block, UnknownBlock)
    ]
    if role is Role.TOOL:
        if len(content) != 1:
            violations.append(f"holds {len(content)} blocks; a tool message must hold exactly one tool_result")
        if metadata.parent_tool_use_id is None:
            violations.append("metadata.parent_tool_use_id is missing")
    if role is Role.ASSISTANT and metadata.status is MessageStatus.COMPLETE:
        violations += [
            f"metadata.{name} is missing"
            for name in ("model", "provider", "routing", "usage")
            if getattr(metadata, name) is None
        ]
    return [f"[{index}] {violation}" for violation in violations]


def _check_references(history: Sequence[Message]) -> list[str]:
    violations: list[str] = []
    called: dict[str, str] = {}
    answered: set[str] = set()
    for index, message in enumerate(history):
        for block in message.tool_uses:
            if not _CANONICAL_ID.fullmatch(block.id):
                violations.append(f"[{index}] the tool id {block.id!r} is not canonical (tu_<ulid>)")
            if block.id in called:
                violations.append(f"[{index}] the tool id {block.id!r} is used twice")
            called[block.id] = message.session_id
        for result in message.content:
            if not isinstance(result, ToolResultBlock):
                continue
            if result.tool_use_id not in called:
                violations.append(f"[{index}] the result of {result.tool_use_id!r} answers no earlier call")
            elif called[result.tool_use_id] != message.session_id:
                violations.append(f"[{index}] the result of {result.tool_use_id!r} answers a call of another session")
            if result.tool_use_id in answered:
                violations.append(f"[{index}] the call {result.tool_use_id!r} is answered twice")
            answered.add(result.tool_use_id)
    return violations
