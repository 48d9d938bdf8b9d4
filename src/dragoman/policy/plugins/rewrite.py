"""Rewrites every text of a part that people and models read. Ids, names, types and URIs do not change."""

import base64
from collections.abc import Callable
from typing import Any

from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
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
from dragoman.canonical.message import read_message
from dragoman.canonical.message_view.parts import UnknownPartError
from dragoman.canonical.native_tools import is_native_tool
from dragoman.policy.texts import decode_text, is_text, without_opaque

Change = Callable[[str], str]


def rewrite_block(part: ContentBlock, change: Change) -> ContentBlock:
    """Return the part with its texts changed, or the same object if none changes.

    Raises UnknownPartError for a part that cannot be read, at any depth, because it must not pass unchanged.
    """
    fields = _fields(part, change)
    changed = {name: value for name, value in fields.items() if value != getattr(part, name)}
    return part.model_copy(update=changed) if changed else part


def rewrite_json(value: Any, change: Change) -> Any:
    """Return a JSON value with all texts changed, keys too; a whole number whose digits would change becomes text."""
    match value:
        case str():
            return change(value)
        case bool() | None | float():
            return value
        case int():
            text = str(value)
            return value if (new := change(text)) == text else new
        case list() | tuple():
            return [rewrite_json(item, change) for item in value]
        case _:
            rewritten: dict[str, Any] = {}
            for key, item in value.items():
                rewritten[_unique_key(change(key), rewritten)] = rewrite_json(item, change)
            return rewritten


def _unique_key(key: str, taken: dict[str, Any]) -> str:
    """Return a key that is not taken: two keys may become equal, and no entry may be lost."""
    name, number = key, 2
    while name in taken:
        name, number = f"{key} {number}", number + 1
    return name


def _fields(part: ContentBlock, change: Change) -> dict[str, Any]:
    match part:
        case TextBlock():
            return {
                "text": change(part.text),
                "citations": tuple(_rewrite_citation(each, change) for each in part.citations),
            }
        case ThinkingBlock():
            return {"text": change(part.text)}
        case ToolUseBlock():
            return {"input": rewrite_json(part.input, change), "raw_input": _change_optional(part.raw_input, change)}
        case ToolResultBlock():
            return {"content": tuple(rewrite_block(block, change) for block in part.content)}
        case ResourceBlock():
            return _rewrite_resource(part, change)
        case PromptRequestBlock():
            return {"arguments": rewrite_json(part.arguments, change)}
        case PromptResultBlock():
            messages = tuple(_rewrite_message(index, raw, change) for index, raw in enumerate(part.messages))
            error = _change_optional(part.error_message, change)
            return {"content": _change_optional(part.content, change), "messages": messages, "error_message": error}
        case AudioBlock():
            return {"transcript": _change_optional(part.transcript, change)}
        case DocumentBlock():
            source = _rewrite_source(part.source, part.media_type, change)
            return {
                "source": source,
                "title": _change_optional(part.title, change),
                "context": _change_optional(part.context, change),
            }
        case ProviderBlock() if is_native_tool(part.kind):
            _check_native(part, change)
            return {}
        case ImageBlock() | VideoBlock() | RedactedThinkingBlock() | ResourceRefBlock():
            return {}
        case _:
            raise UnknownPartError(f"a part of the kind {part.type!r:.80} cannot be read")


def _check_native(part: ProviderBlock, change: Change) -> None:
    """Raise UnknownPartError if a text of a native block would change: its provider takes it as it came, or not."""
    readable = without_opaque(part.data)
    if rewrite_json(readable, change) != readable:
        raise UnknownPartError(f"a native block of the kind {part.kind!r:.80} holds a text that it cannot lose")


def _change_optional(text: str | None, change: Change) -> str | None:
    return None if text is None else change(text)


def _rewrite_citation(citation: Citation, change: Change) -> Citation:
    fields = {
        "title": _change_optional(citation.title, change),
        "cited_text": _change_optional(citation.cited_text, change),
        "data": None if citation.data is None else rewrite_json(citation.data, change),
    }
    return citation.model_copy(update=fields)


def _rewrite_resource(part: ResourceBlock, change: Change) -> dict[str, Any]:
    content, blob = _change_optional(part.content, change), part.blob
    if blob is not None and is_text(part.mime_type):
        blob = _rewrite_base64(blob, change)
    fields = {"content": content, "blob": blob, "description": _change_optional(part.description, change)}
    if (content, blob) != (part.content, part.blob):
        fields["size_bytes"] = None  # the declared size no longer applies
    return fields | {"annotations": rewrite_json(part.annotations, change)}


def _rewrite_source(source: MediaSource, media_type: str | None, change: Change) -> MediaSource:
    data = source.data
    if source.kind == "text":
        data = change(data)
    elif source.kind == "base64" and is_text(media_type):
        data = _rewrite_base64(data, change)
    return source if data == source.data else source.model_copy(update={"data": data})


def _rewrite_base64(data: str, change: Change) -> str:
    """Rewrite base64 of a text; other data is returned unchanged, whatever its declared type."""
    text = decode_text(data)
    if text is None:
        return data
    new = change(text)
    return data if new == text else base64.b64encode(new.encode()).decode()


def _rewrite_message(index: int, raw: dict[str, Any], change: Change) -> dict[str, Any]:
    where = f"messages[{index}] of the prompt result"
    try:
        message = read_message(raw)
    except ValueError:
        raise UnknownPartError(f"{where} is not a canonical message: deny it") from None
    if not message.role.is_known:
        raise UnknownPartError(f"{where} is not a canonical message: its role is unknown")
    content = tuple(rewrite_block(block, change) for block in message.content)
    if content == message.content:
        return raw
    return raw | {"content": [block.model_dump(mode="json", exclude_none=True) for block in content]}
