"""Contents of steps and blocks: one content is one block, either way."""

from typing import Any

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman_adapters.google import encode_blocks
from dragoman_adapters.google.base64_text import to_standard_base64

_MEDIA: dict[str, type[ImageBlock | AudioBlock | VideoBlock | DocumentBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
    "document": DocumentBlock,
}


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """The block of a content; what the canonical form has no word for is kept whole."""
    kind = native["type"]
    if kind == "text":
        text = native["text"]
        return TextBlock(
            text=text, citations=tuple(_decode_citation(each, text) for each in native.get("annotations") or ())
        )
    source = _decode_source(native, provider)
    if kind not in _MEDIA or source is None:
        return ProviderBlock(provider=provider, kind=kind, data=native)
    if kind == "image":
        return ImageBlock(source=source, media_type=native.get("mime_type"), detail=native.get("resolution"))
    media_block: ContentBlock = _MEDIA[kind](source=source, media_type=native.get("mime_type"))
    return media_block


def _decode_source(native: dict[str, Any], provider: str) -> MediaSource | None:
    if isinstance(native.get("data"), str):
        return MediaSource(kind="base64", data=to_standard_base64(native["data"]))
    return encode_blocks.decode_file_source(native["uri"], provider) if isinstance(native.get("uri"), str) else None


def _decode_citation(native: dict[str, Any], text: str) -> Citation:
    """An annotation. Its indexes count bytes of UTF-8, ours characters."""
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
    """A thought step: its summary, of which the texts count, and its signature."""
    texts = [each["text"] for each in native.get("summary") or () if each.get("type") == "text"]
    return ThinkingBlock(text="".join(texts), signature=native.get("signature") or None)


def call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    arguments = native.get("arguments")
    if isinstance(arguments, str):  # as a stream left it
        parsed, raw = wirejson.parse_arguments(arguments)
        return ToolUseBlock(id=tool_use_id, name=native["name"], input=parsed, raw_input=raw)
    raw = native.get(encode_blocks.RAW_INPUT)
    return ToolUseBlock(id=tool_use_id, name=native["name"], input=arguments or {}, raw_input=raw)


def decode_tool_result(native: dict[str, Any], tool_use_id: str, provider: str) -> ToolResultBlock:
    """A tool's answer: a text, a list of contents, or an object, which is read as its JSON."""
    answer = native.get("result")
    if isinstance(answer, list) and all(isinstance(each, dict) and "type" in each for each in answer):
        content: tuple[ContentBlock, ...] = tuple(decode_block(each, provider) for each in answer)
    elif isinstance(answer, str):
        content = (TextBlock(text=answer),) if answer else ()
    else:
        content = () if answer is None else (TextBlock(text=wirejson.dumps_text(answer)),)
    return ToolResultBlock(tool_use_id=tool_use_id, content=content, is_error=bool(native.get("is_error")))


def encode_block(block: ContentBlock) -> dict[str, Any]:
    """The content of a block."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            return _encode_media(block)
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def _encode_media(block: encode_blocks.Media) -> dict[str, Any]:
    part = encode_blocks.encode_media(block)
    data = part.get("inlineData") or part["fileData"]
    named = {"data": data.get("data"), "uri": data.get("fileUri"), "mime_type": data.get("mimeType")}
    return {"type": block.type, **{name: value for name, value in named.items() if value is not None}}


def encode_step(block: ContentBlock, wire_id: str | None = None) -> dict[str, Any] | None:
    """The step that a block is by itself; None for one that is a content of a step."""
    match block:
        case ThinkingBlock():
            signed = {"signature": block.signature} if block.signature else {}
            summed = {"summary": [{"type": "text", "text": block.text}]} if block.text else {}
            return {"type": "thought", **signed, **summed}
        case ToolUseBlock():
            return {"type": "function_call", "id": wire_id, "name": block.name, "arguments": block.input}
        case _:
            return None


def encode_tool_result(block: ToolResultBlock, name: str, wire_id: str) -> dict[str, Any]:
    """A tool's answer as a step: its texts as one."""
    answer = "\n".join(each.text for each in block.content if isinstance(each, TextBlock))
    encoded: dict[str, Any] = {"type": "function_result", "call_id": wire_id, "name": name, "result": answer}
    return encoded | ({"is_error": True} if block.is_error else {})
