"""Decodes parts to blocks, and notes what a part holds in addition to its block."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from dragoman.adapter import wirejson
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import (
    MEDIA_CLASSES,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    MediaSource,
    ProviderBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman_adapters.google.encode_blocks import apply_note
from dragoman_adapters.google.values.base64_text import to_standard_base64, to_standard_part
from dragoman_adapters.google.values.spelling import to_camel_case

FLAGS = frozenset({"thought", "thoughtSignature", "mediaResolution", "videoMetadata", "partMetadata"})
"""The keys of a part in addition to its one data field."""
JOINABLE = ({"text"}, {"text", "thought"})
"""The keys of parts that join. A part with any other key, such as a signature, stays separate."""
_DATA_FIELDS = frozenset({
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
    "toolCall", "toolResponse",
})  # fmt: skip
RAW_INPUT = "rawInput"
"""The key for the arguments of a call that a stream left unfinished. No provider has this field."""
_FILES_API = "generativelanguage.googleapis.com"
_YOUTUBE = ("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be")


def part_kind(part: Mapping[str, Any]) -> str:
    """Return the name of a part's data field; empty if it has none. A known name takes precedence over a new one."""
    known = next((key for key in part if key in _DATA_FIELDS), None)
    return known or next((key for key in part if key not in FLAGS), "")


def decode_block(native: dict[str, Any], tool_use_id: str, provider: str, *, by_model: bool = True) -> ContentBlock:
    """Decode a part; unknown parts are kept whole. Only a model's part is thinking or a call."""
    part, _ = to_camel_case(native)
    is_thinking = bool(part.get("thought"))
    match part_kind(part):
        case "text" | "" if is_thinking and by_model:
            return ThinkingBlock(text=part.get("text", ""), signature=part.get("thoughtSignature") or None)
        case "text" if not is_thinking:
            return text_block(part["text"])
        case "" if "thoughtSignature" in part and not is_thinking:
            return text_block("")
        case "functionCall" if by_model and isinstance(part["functionCall"].get("name"), str):
            return _decode_tool_call(part["functionCall"], tool_use_id)
        case "inlineData" if not is_thinking:
            data = part["inlineData"]
            source = MediaSource(kind="base64", data=to_standard_base64(data["data"]))
            return _decode_media(source, data.get("mimeType"), part)
        case "fileData" if not is_thinking:
            data = part["fileData"]
            return _decode_media(decode_file_source(data["fileUri"], provider), data.get("mimeType"), part)
        case other:
            return ProviderBlock(provider=provider, kind=other or "part", data=native)


def _decode_tool_call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    arguments = native.get("args")
    raw = native.get(RAW_INPUT)
    if isinstance(arguments, str):
        arguments, raw = wirejson.parse_arguments(arguments)
    elif not isinstance(arguments, dict | None):
        arguments, raw = {}, wirejson.dumps_text(arguments)
    return ToolUseBlock(id=tool_use_id, name=native["name"], input=arguments or {}, raw_input=raw)


def _decode_media(source: MediaSource, media_type: str | None, part: Mapping[str, Any]) -> MediaBlock:
    """Return the block for a media type. Without a type, a link to YouTube is a video and anything else a document."""
    family = (media_type or "").partition("/")[0]
    if not family and source.kind == "url" and urlsplit(source.data).hostname in _YOUTUBE:
        family = "video"
    if family == "image":
        resolution = part.get("mediaResolution")
        level = resolution.get("level") if isinstance(resolution, dict) else None
        detail = level.removeprefix("MEDIA_RESOLUTION_").lower() if isinstance(level, str) else None
        return ImageBlock(source=source, media_type=media_type, detail=detail)
    return MEDIA_CLASSES.get(family, DocumentBlock)(source=source, media_type=media_type)


def decode_file_source(uri: str, provider: str) -> MediaSource:
    """Decode a public link, or a file of the Files API or of a bucket, which only this provider can read."""
    place = urlsplit(uri)
    if place.scheme in ("http", "https") and place.hostname != _FILES_API:
        return MediaSource(kind="url", data=uri)
    return MediaSource(kind="file_id", data=uri, provider=provider)


def decode_tool_result(native: dict[str, Any], tool_use_id: str, provider: str) -> ToolResultBlock:
    """Decode a tool's result. An object with ``output`` or ``error`` alone holds the result; any other object is the
    result.
    """
    answer: Any = native.get("response")
    is_error = False
    match answer:
        case {"error": inner} if len(answer) == 1:
            answer, is_error = inner, True
        case {"output": inner} if len(answer) == 1:
            answer = inner
    content: list[ContentBlock] = []
    if answer or isinstance(answer, (int, float)):
        content.append(text_block(answer if isinstance(answer, str) else wirejson.dumps_text(answer)))
    content += [decode_block(each, "", provider, by_model=False) for each in native.get("parts") or ()]
    return ToolResultBlock(tool_use_id=tool_use_id, content=tuple(content), is_error=is_error)


def note_part(native: dict[str, Any], encoded: dict[str, Any]) -> dict[str, Any]:
    """Return what a part holds beyond our encoding of its block; empty if nothing."""
    camel_cased, spelling = to_camel_case(native)
    camel_cased, base64_spelling = to_standard_part(camel_cased)
    found: dict[str, Any] = {"spelling": spelling} if spelling else {}
    if base64_spelling:
        found["base64"] = base64_spelling
    inner: dict[str, Any] = {}
    for key, ours in encoded.items():
        theirs = camel_cased.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if difference := diff_objects(theirs, ours):
                inner[key] = difference
            camel_cased[key] = ours
    if inner:
        found["inner"] = inner
    found |= diff_objects(camel_cased, encoded) or {}
    # If one part uses both spellings of a name, the list of spellings cannot restore it.
    return found if diff_objects(native, apply_note(encoded, found)) is None else diff_objects(native, encoded) or {}
