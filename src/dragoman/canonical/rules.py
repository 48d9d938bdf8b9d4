"""The invariants of a history, as one table and a few functions. Nothing here raises.

Source: docs/reference/canonical.md#invariants.
"""

import binascii
import re
from collections.abc import Iterable, Iterator, Sequence

from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, MessageStatus, Role

logger = get_logger("dragoman.canonical")

_SHOWN = 3
"""The violations that one log record quotes."""
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+ *(?:;.*)?", re.ASCII)
_PIECE = 1024 * 1024
"""Characters of base64 that are looked at without a pause, a multiple of four."""
_SESSION_ONLY = " is missing"
"""How the violations end that do not count in histories from elsewhere: only a session notes the model and the usage of
a reply, and the call of a result in its metadata."""

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

_USUAL: dict[Role, tuple[type, ...]] = {
    Role.USER: (TextBlock,),
    Role.ASSISTANT: (TextBlock, ToolUseBlock),
    Role.TOOL: (ToolResultBlock,),
    Role.SYSTEM: (TextBlock,),
    Role.DEVELOPER: (TextBlock,),
}
"""The blocks of which nearly all messages of a role are made."""

_CANONICAL_ID = re.compile(r"tu_[0-9A-HJKMNP-TV-Z]{26}")


def check(history: Sequence[Message]) -> list[str]:
    """Return every violation as one sentence that starts with the message's index; an empty list if there are none."""
    return [
        *(violation for index, message in enumerate(history) for violation in _check_message(index, message)),
        *_check_references(history),
    ]


def warn(history: Sequence[Message], origin: str, unusual: Sequence[int] | None = None) -> None:
    """Write one log record of what a history breaks where it enters. It may enter all the same: what a provider cannot
    get is a loss of the request. What only messages of a session have is not asked of others. ``unusual`` are the
    messages to look at, if the caller knows them."""
    unusual = find_unusual(history) if unusual is None else unusual
    found = [violation for index in unusual for violation in _check_message(index, history[index])]
    violations = [
        *(violation for violation in found if not violation.endswith(_SESSION_ONLY)),
        *_check_references(history),
    ]
    if violations:
        shown = "; ".join(violation[:200] for violation in violations[:_SHOWN])
        more = f"; and {len(violations) - _SHOWN} more" if len(violations) > _SHOWN else ""
        logger.warning("%s breaks the invariants of histories: %s%s", origin, shown, more)


def find_unusual(history: Sequence[Message]) -> list[int]:
    """Return the indexes of the messages that `check` and `check_media` may object to but for what is missing. Most are
    made of texts, calls and results of texts alone: a long history is looked through once for each request."""
    return [index for index, message in enumerate(history) if not _is_usual(message)]


def _is_usual(message: Message) -> bool:
    usual = _USUAL.get(message.role, ())
    for block in message.content:
        kind = type(block)
        if kind not in usual:
            return False
        if kind is ToolResultBlock and any(type(part) is not TextBlock for part in block.content):  # type: ignore[union-attr]
            return False
    return len(message.content) == 1 or (message.role is not Role.TOOL and bool(message.content))


def check_media(content: Iterable[ContentBlock]) -> Iterator[str]:
    """Yield as phrases what is wrong with media, by their place: base64 that is not, and media types that are not."""
    for position, block in enumerate(content):
        if isinstance(block, ToolResultBlock):
            yield from (f"content[{position}].{violation}" for violation in check_media(block.content))
        elif isinstance(block, MEDIA_BLOCKS):
            if block.source.kind == "base64" and not _is_base64(block.source.data):
                hint = ", but a URL" if block.source.data.startswith(("data:", "http://", "https://")) else ""
                yield f"content[{position}]: the data of the {block.type} is not base64{hint}"
            if block.media_type is not None and not _MEDIA_TYPE.fullmatch(block.media_type):
                yield f"content[{position}]: {block.media_type[:40]!r} is not a media type, such as image/png"


def _is_base64(data: str) -> bool:
    """Whether data is base64 with its padding. Line breaks are allowed, as MIME has them."""
    data = "".join(data.split()) if "\n" in data else data
    if -1 < data.find("=") < len(data) - 2:
        return False
    try:
        for start in range(0, len(data), _PIECE):  # other threads run between two pieces
            binascii.a2b_base64(data[start : start + _PIECE], strict_mode=True)
    except ValueError:
        return False
    return True


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
    violations += check_media(content)
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
        calls, results = _calls_and_results(message)
        for block in calls:
            if not _CANONICAL_ID.fullmatch(block.id):
                violations.append(f"[{index}] the tool id {block.id!r} is not canonical (tu_<ulid>)")
            if block.id in called:
                violations.append(f"[{index}] the tool id {block.id!r} is used twice")
            called[block.id] = message.session_id
        for result in results:
            if result.tool_use_id not in called:
                violations.append(f"[{index}] the result of {result.tool_use_id!r} answers no earlier call")
            elif called[result.tool_use_id] != message.session_id:
                violations.append(f"[{index}] the result of {result.tool_use_id!r} answers a call of another session")
            if result.tool_use_id in answered:
                violations.append(f"[{index}] the call {result.tool_use_id!r} is answered twice")
            answered.add(result.tool_use_id)
    return violations


def _calls_and_results(message: Message) -> tuple[list[ToolUseBlock], list[ToolResultBlock]]:
    calls: list[ToolUseBlock] = []
    results: list[ToolResultBlock] = []
    for block in message.content:
        if type(block) is TextBlock:
            continue
        if isinstance(block, ToolUseBlock):
            calls.append(block)
        elif isinstance(block, ToolResultBlock):
            results.append(block)
    return calls, results
