"""Reads one part of a message for its view: text, name, identity, properties.

Source: docs/reference/cmf.md#attributes and docs/reference/cmf.md#properties.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message_fields import MessageFields, Role
from dragoman.canonical.message_view.kinds import native_tool_name
from dragoman.canonical.versions import read_as

NAMELESS = "_"
"""The placeholder in a URI for an unknown namespace, server or tool."""

_BASE64_BYTES, _BASE64_CHARACTERS = 3, 4


class UnknownPartError(ValueError):
    """A part of a message has no view kind. Policies cannot judge it, so it must not pass."""


class CalledTool(NamedTuple):
    """The tool of a call. ``namespace`` is the server or origin that it belongs to."""

    name: str
    """The name under which the tool was offered, without the namespace."""
    namespace: str | None = None


def called_tools(
    messages: Iterable[MessageFields], namespaces: Mapping[str, str] | None = None
) -> dict[str, CalledTool]:
    """Return the tool of every call in a history, by the call's id. ``namespaces`` are by tool name."""
    known = namespaces or {}
    return {use.id: CalledTool(use.name, known.get(use.name)) for message in messages for use in message.tool_uses}


def content_of(part: ContentBlock) -> str | None:
    """Return the text that a policy can search, or None.

    Calls and requests give their arguments as JSON (malformed ones as received). A tool result gives its text if it has
    exactly one text block, otherwise its blocks as JSON; a native block gives its object. Documents give a text source
    and their context, audio its transcript: the model reads these too. `Step.texts` has names and titles as well.
    """
    match part:
        case TextBlock() | ThinkingBlock():
            return part.text
        case ToolUseBlock():
            return _json(part.input) if part.raw_input is None else part.raw_input
        case PromptRequestBlock():
            return _json(part.arguments)
        case ToolResultBlock():
            first = part.content[0] if part.content else None
            if len(part.content) == 1 and isinstance(first, TextBlock) and not first.citations:
                return first.text
            blocks = [block.model_dump(mode="json", exclude_none=True) for block in part.content]
            return _json(blocks) if blocks else None
        case ProviderBlock():
            return _json(part.data)
        case ResourceBlock() | PromptResultBlock():
            return part.content
        case AudioBlock():
            return part.transcript
        case DocumentBlock():
            texts = [part.context, part.source.data if part.source.kind == "text" else None]
            return "\n".join(text for text in texts if text is not None) if any(texts) else None
        case _:
            return None


def _json(value: Any) -> str:
    """Dump as JSON with unescaped characters, so that a policy finds a word in any script."""
    return json.dumps(value, ensure_ascii=False)


def size_of(part: ContentBlock, content: str | None) -> int | None:
    """Return the size in bytes: a resource's declared size, otherwise the content in UTF-8, otherwise the blob."""
    if isinstance(part, ResourceBlock):
        if part.size_bytes is not None:
            return part.size_bytes
        if content is None and part.blob is not None:
            return len(part.blob.rstrip("=")) * _BASE64_BYTES // _BASE64_CHARACTERS
    return None if content is None else len(content.encode())


def name_of(part: ContentBlock, called: CalledTool | None) -> str | None:
    match part:
        case ToolUseBlock() | PromptRequestBlock() | ResourceBlock() | ResourceRefBlock():
            return part.name
        case ToolResultBlock():
            return called.name if called else None
        case ProviderBlock():
            return native_tool_name(part.kind, part.data)
        case PromptResultBlock():
            return part.prompt_name
        case _:
            return None


def uri_of(part: ContentBlock, called: CalledTool | None) -> str | None:
    match part:
        case ToolUseBlock():
            return f"tool://{(called and called.namespace) or NAMELESS}/{part.name}"
        case ToolResultBlock():
            return f"tool_result://{called.name if called else NAMELESS}"
        case ProviderBlock():
            return f"tool_result://{native_tool_name(part.kind, part.data)}"
        case PromptRequestBlock():
            return f"prompt://{part.server_id or NAMELESS}/{part.name}"
        case PromptResultBlock():
            return f"prompt_result://{part.prompt_name}"
        case ResourceBlock() | ResourceRefBlock():
            return part.uri
        case ImageBlock() | VideoBlock() | AudioBlock() | DocumentBlock():
            return part.source.data if part.source.kind == "url" else None
        case _:
            return None


def arguments_of(part: ContentBlock) -> dict[str, Any] | None:
    """Return the arguments themselves, not a copy."""
    match part:
        case ToolUseBlock():
            return part.input
        case PromptRequestBlock():
            return part.arguments
        case _:
            return None


def inner_parts(part: ContentBlock) -> Iterator[tuple[Role, ContentBlock]]:
    """Yield the parts inside a part, with their role. Raises UnknownPartError if the role is unknown."""
    match part:
        case ToolResultBlock():
            yield from ((Role.TOOL, block) for block in part.content)
        case PromptResultBlock():
            for index, raw in enumerate(part.messages):
                where = f"messages[{index}] of the prompt result"
                try:
                    message = read_as(MessageFields, raw)
                except ValueError:
                    raise UnknownPartError(f"{where} is not a canonical message: deny it") from None
                if not message.role.is_known:
                    raise UnknownPartError(f"{where} is not a canonical message: its role is unknown")
                yield from ((message.role, block) for block in message.content)
        case _:
            return


def mime_type_of(part: ContentBlock) -> str | None:
    match part:
        case ResourceBlock():
            return part.mime_type
        case ImageBlock() | VideoBlock() | AudioBlock() | DocumentBlock():
            return part.media_type
        case _:
            return None


def properties_of(part: ContentBlock, called: CalledTool | None) -> dict[str, Any]:
    """Return the properties of this kind of part; nested values are shared with the part."""
    match part:
        case ResourceBlock():
            return {"resource_type": part.resource_type, "version": part.version, "annotations": part.annotations}
        case ToolUseBlock():
            return {"namespace": called.namespace if called else None, "tool_id": part.id}
        case ToolResultBlock():
            return {"is_error": part.is_error, "tool_name": called.name if called else None}
        case ProviderBlock():
            return {
                "tool_name": native_tool_name(part.kind, part.data),
                "provider": part.provider,
                "native_kind": part.kind,
            }
        case PromptRequestBlock():
            return {"server_id": part.server_id}
        case PromptResultBlock():
            return {"is_error": part.is_error, "message_count": len(part.messages)}
        case _:
            return {}
