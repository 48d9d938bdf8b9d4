"""The tables of views: kinds, actions and directions, and which native blocks are calls and results of tools that a
provider runs.

Source: docs/reference/cmf.md#kinds-and-actions and docs/reference/cmf.md#direction.
"""

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from dragoman.canonical import blocks
from dragoman.canonical.message_fields import Role


@lru_cache(maxsize=1024)
def is_native_tool(kind: str) -> bool:
    """Whether a native block of this kind is a call or a result."""
    return any(fnmatchcase(kind, pattern) for pattern in _table()["kinds"])


def native_tool_name(kind: str, data: Mapping[str, Any]) -> str:
    """Return the name in a native block, or else its kind without what says "call" or "result"."""
    table, fields = _table(), native_fields(kind, data)
    named = next((value for name in table["names"] if isinstance(value := fields.get(name), str) and value), None)
    ending = next((end for end in table["endings"] if kind.endswith(end)), "")
    return named or table["words"].get(kind) or kind.removesuffix(ending) or kind


def native_fields(kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a native block: some wires have them in an object with the name of the kind."""
    inner = data.get(kind)
    return inner if isinstance(inner, dict) else data


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("native_tools.toml").read_text(encoding="utf-8"))


class ViewKind(StrEnum):
    """What a part is. Source: docs/reference/cmf.md#kinds-and-actions."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RESOURCE = "resource"
    RESOURCE_REF = "resource_ref"
    PROMPT_REQUEST = "prompt_request"
    PROMPT_RESULT = "prompt_result"
    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"
    DOCUMENT = "document"


class ViewAction(StrEnum):
    """What happens with a part. Source: docs/reference/cmf.md#kinds-and-actions. ``write`` is a CMF action that no kind
    of part has."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    INVOKE = "invoke"
    SEND = "send"
    RECEIVE = "receive"
    GENERATE = "generate"


KIND_BY_BLOCK: dict[type[Any], ViewKind] = {
    blocks.TextBlock: ViewKind.TEXT,
    blocks.ThinkingBlock: ViewKind.THINKING,
    blocks.RedactedThinkingBlock: ViewKind.THINKING,
    blocks.ToolUseBlock: ViewKind.TOOL_CALL,
    blocks.ToolResultBlock: ViewKind.TOOL_RESULT,
    blocks.ResourceBlock: ViewKind.RESOURCE,
    blocks.ResourceRefBlock: ViewKind.RESOURCE_REF,
    blocks.PromptRequestBlock: ViewKind.PROMPT_REQUEST,
    blocks.PromptResultBlock: ViewKind.PROMPT_RESULT,
    blocks.ImageBlock: ViewKind.IMAGE,
    blocks.VideoBlock: ViewKind.VIDEO,
    blocks.AudioBlock: ViewKind.AUDIO,
    blocks.DocumentBlock: ViewKind.DOCUMENT,
}
"""The kinds by class, because a class cannot misreport its type. Blocks that are missing here have no view, and policy
rejects them, except for native blocks (see `kind_of`).
"""


def kind_of(block: Any) -> ViewKind | None:
    """Return the kind of a block; None if no view can show it.

    A native block of a tool that its provider runs is a result: its call was not asked for by the program, and what it
    found came from outside.
    """
    known = KIND_BY_BLOCK.get(type(block))
    if known is None and type(block) is blocks.ProviderBlock and is_native_tool(block.kind):
        return ViewKind.TOOL_RESULT
    return known


ACTIONS: dict[ViewKind, ViewAction] = {
    ViewKind.TOOL_CALL: ViewAction.EXECUTE,
    ViewKind.TOOL_RESULT: ViewAction.RECEIVE,
    ViewKind.RESOURCE: ViewAction.READ,
    ViewKind.RESOURCE_REF: ViewAction.READ,
    ViewKind.PROMPT_REQUEST: ViewAction.INVOKE,
    ViewKind.PROMPT_RESULT: ViewAction.RECEIVE,
}
"""Actions of the kinds that do not depend on the role."""

ACTIONS_BY_ROLE: dict[Role, ViewAction] = {
    Role.USER: ViewAction.SEND,
    Role.SYSTEM: ViewAction.SEND,
    Role.DEVELOPER: ViewAction.SEND,
    Role.ASSISTANT: ViewAction.GENERATE,
    Role.TOOL: ViewAction.RECEIVE,
}

PRE_KINDS = frozenset({ViewKind.TOOL_CALL, ViewKind.PROMPT_REQUEST, ViewKind.RESOURCE_REF})
"""Kinds that are requests, whatever the role."""
POST_KINDS = frozenset({ViewKind.TOOL_RESULT, ViewKind.PROMPT_RESULT, ViewKind.RESOURCE})
"""Kinds that are results, whatever the role."""
PRE_ROLES = frozenset({Role.USER, Role.SYSTEM, Role.DEVELOPER})
"""Roles with text and media that are input. For other roles they are output."""

TOOLS = frozenset({ViewKind.TOOL_CALL, ViewKind.TOOL_RESULT})
PROMPTS = frozenset({ViewKind.PROMPT_REQUEST, ViewKind.PROMPT_RESULT})
RESOURCES = frozenset({ViewKind.RESOURCE, ViewKind.RESOURCE_REF})
TEXTS = frozenset({ViewKind.TEXT, ViewKind.THINKING})
MEDIA = frozenset({ViewKind.IMAGE, ViewKind.VIDEO, ViewKind.AUDIO, ViewKind.DOCUMENT})
CALLS = frozenset({ViewKind.TOOL_CALL, ViewKind.PROMPT_REQUEST})
"""Kinds that have arguments."""
