"""What a view can be of, what it does, and which way it goes: the tables of CMF A5.2 to A5.5."""

from enum import StrEnum

from dragoman.canonical.blocks import (
    AudioBlock,
    DocumentBlock,
    FrozenModel,
    ImageBlock,
    PromptRequestBlock,
    PromptResultBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Role


class ViewKind(StrEnum):
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
    """``write`` is a word of the specification that no kind of part stands for."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    INVOKE = "invoke"
    SEND = "send"
    RECEIVE = "receive"
    GENERATE = "generate"


KIND_BY_BLOCK: dict[type[FrozenModel], ViewKind] = {
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
"""By class, since a class cannot lie about its type. What is not in here has no view: policy has to refuse it."""

ACTIONS: dict[ViewKind, ViewAction] = {
    ViewKind.TOOL_CALL: ViewAction.EXECUTE,
    ViewKind.TOOL_RESULT: ViewAction.RECEIVE,
    ViewKind.RESOURCE: ViewAction.READ,
    ViewKind.RESOURCE_REF: ViewAction.READ,
    ViewKind.PROMPT_REQUEST: ViewAction.INVOKE,
    ViewKind.PROMPT_RESULT: ViewAction.RECEIVE,
}
"""Of the kinds whose action does not depend on the role."""

ACTIONS_BY_ROLE: dict[Role, ViewAction] = {
    Role.USER: ViewAction.SEND,
    Role.SYSTEM: ViewAction.SEND,
    Role.DEVELOPER: ViewAction.SEND,
    Role.ASSISTANT: ViewAction.GENERATE,
    Role.TOOL: ViewAction.RECEIVE,
}

PRE_KINDS = frozenset({ViewKind.TOOL_CALL, ViewKind.PROMPT_REQUEST, ViewKind.RESOURCE_REF})
"""Kinds that ask for something, whoever speaks."""
POST_KINDS = frozenset({ViewKind.TOOL_RESULT, ViewKind.PROMPT_RESULT, ViewKind.RESOURCE})
"""Kinds that answer something, whoever speaks."""
PRE_ROLES = frozenset({Role.USER, Role.SYSTEM, Role.DEVELOPER})
"""Roles whose text and media are input; those of the others are output."""

TOOLS = frozenset({ViewKind.TOOL_CALL, ViewKind.TOOL_RESULT})
PROMPTS = frozenset({ViewKind.PROMPT_REQUEST, ViewKind.PROMPT_RESULT})
RESOURCES = frozenset({ViewKind.RESOURCE, ViewKind.RESOURCE_REF})
TEXTS = frozenset({ViewKind.TEXT, ViewKind.THINKING})
MEDIA = frozenset({ViewKind.IMAGE, ViewKind.VIDEO, ViewKind.AUDIO, ViewKind.DOCUMENT})
CALLS = frozenset({ViewKind.TOOL_CALL, ViewKind.PROMPT_REQUEST})
"""Kinds that have arguments."""
