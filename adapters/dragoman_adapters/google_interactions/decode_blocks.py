"""Decodes steps and their contents to blocks."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import (
    MEDIA_CLASSES,
    Citation,
    ContentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman_adapters.google import decode_blocks
from dragoman_adapters.google.values.base64_text import to_standard_base64


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """Decode a content; unknown contents are kept whole."""
    kind = native["type"]
    if kind == "text":
        text = native["text"]
        return TextBlock(
            text=text, citations=tuple(_decode_citation(each, text) for each in native.get("annotations") or ())
        )
    source = None
    if isinstance(native.get("data"), str):
        source = MediaSource(kind="base64", data=to_standard_base64(native["data"]))
    elif isinstance(native.get("uri"), str):
        source = decode_blocks.decode_file_source(native["uri"], provider)
    if kind not in MEDIA_CLASSES or source is None:
        return ProviderBlock(provider=provider, kind=kind, data=native)
    if kind == "image":
        return ImageBlock(source=source, media_type=native.get("mime_type"), detail=native.get("resolution"))
    return MEDIA_CLASSES[kind](source=source, media_type=native.get("mime_type"))


def _decode_citation(native: dict[str, Any], text: str) -> Citation:
    """Decode an annotation. Its indexes count bytes of UTF-8, ours count characters."""
    encoded = text.encode()
    start, end = native.get("start_index"), native.get("end_index")
    is_valid = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(encoded)
    return Citation(
        kind=str(native.get("type") or "annotation"),
        title=native.get("title") or native.get("file_name"),
        url=native.get("url") or native.get("document_uri"),
        start=len(encoded[:start].decode(errors="replace")) if is_valid else None,
        end=len(encoded[:end].decode(errors="replace")) if is_valid else None,
        data=native,
    )


def decode_thinking(native: dict[str, Any]) -> ThinkingBlock:
    """Decode a thought step: the texts of its summary, and its signature."""
    texts = [each["text"] for each in native.get("summary") or () if each.get("type") == "text"]
    return ThinkingBlock(text="".join(texts), signature=native.get("signature") or None)


def decode_tool_result(native: dict[str, Any], tool_use_id: str, provider: str) -> ToolResultBlock:
    """Decode a tool result: a text, a list of contents, or an object, which becomes its JSON."""
    answer = native.get("result")
    if isinstance(answer, list) and all(isinstance(each, dict) and "type" in each for each in answer):
        content: tuple[ContentBlock, ...] = tuple(decode_block(each, provider) for each in answer)
    elif isinstance(answer, str):
        content = (text_block(answer),) if answer else ()
    else:
        content = () if answer is None else (text_block(wirejson.dumps_text(answer)),)
    return ToolResultBlock(tool_use_id=tool_use_id, content=content, is_error=bool(native.get("is_error")))


def decode_tool_call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    arguments = native.get("arguments")
    if isinstance(arguments, str):  # left unfinished by a stream
        parsed, raw = wirejson.parse_arguments(arguments)
        return ToolUseBlock(id=tool_use_id, name=native["name"], input=parsed, raw_input=raw)
    raw = native.get(decode_blocks.RAW_INPUT)
    return ToolUseBlock(id=tool_use_id, name=native["name"], input=arguments or {}, raw_input=raw)
