"""The tables of views: kinds, actions and directions.

Source: docs/reference/cmf.md#kinds-and-actions and docs/reference/cmf.md#direction.
"""

from enum import StrEnum
from typing import Any

from dragoman.canonical.blocks import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message_fields import Role
from dragoman.canonical.native_tools import is_native_tool


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
    TextBlock: ViewKind.TEXT,
    ThinkingBlock: ViewKind.THINKING,
    RedactedThinkingBlock: ViewKind.THINKING,
    ToolUseBlock: ViewKind.TOOL_CALL,
    ToolResultBlock: ViewKind.TOOL_RESULT,
    ResourceBlock: ViewKind.RESOURCE,
    ResourceRefBlock: ViewKind.RESOURCE_REF,
    PromptRequestBlock: ViewKind.PROMPT_REQUEST,
    PromptResultBlock: ViewKind.PROMPT_RESULT,
    ImageBlock: ViewKind.IMAGE,
    VideoBlock: ViewKind.VIDEO,
    AudioBlock: ViewKind.AUDIO,
    DocumentBlock: ViewKind.DOCUMENT,
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
    if known is None and type(block) is ProviderBlock and is_native_tool(block.kind):
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
