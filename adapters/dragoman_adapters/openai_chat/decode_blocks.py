"""Decodes the pieces of a message to blocks, and notes what a piece holds in addition to its block."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.wire_diff import diff_objects
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman_adapters.openai_chat import encode, media, thinking_details
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_chat.encode import Piece

REFERENCES = "references"
"""Our own field of a text part, for the parts that back the text."""

_PLAIN_FIELDS = {"type", "text"}


def split_message(native: Mapping[str, Any], dialect: Dialect) -> list[Piece]:
    """Split a message into pieces, in the order in which models produce them."""
    pieces = _split_reasoning(native, dialect)
    content = native.get("content")
    if isinstance(content, dict):  # Cloudflare sends the value of a structured output itself
        content = wirejson.dumps_text(content)
    if content and isinstance(content, str):
        pieces.append(("content", {"type": "text", "text": content}))
    elif content:
        pieces += _split_content(content, dialect)
    if refusal := native.get("refusal"):
        pieces.append(("refusal", refusal))
    if (audio := native.get("audio")) and audio.get("data"):
        pieces.append(("audio", audio))
    if encode.IMAGES_FIELD in native:
        pieces += [(encode.IMAGES_FIELD, image) for image in generated_images(native)]
    pieces += [("tool_calls", call) for call in native.get("tool_calls") or ()]
    if (call := native.get("function_call")) and call.get("name"):
        pieces.append(("function_call", call))
    return pieces


def _split_reasoning(native: Mapping[str, Any], dialect: Dialect) -> list[Piece]:
    detailed = (native.get(thinking_details.DETAILS_FIELD) if dialect.reasoning_details else None) or ()
    details: list[Piece] = [(thinking_details.DETAILS_FIELD, detail) for detail in detailed]
    if any(map(thinking_details.detail_text, detailed)):
        return details  # the plain text only repeats them
    for name in dialect.reasoning_fields:
        if (text := native.get(name)) and isinstance(text, str):
            return [(name, text), *details]
    return details


def generated_images(native: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the images of a message or a delta; none if the field has another form, which then stays in the raw
    reply."""
    images = native.get(encode.IMAGES_FIELD)
    is_known = isinstance(images, list) and all(
        lookup_path(each, "type") == "image_url" and isinstance(lookup_path(each, "image_url.url"), str)
        for each in images
    )
    return images if isinstance(images, list) and is_known else []


def join_pieces(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Return the message that `split_message` splits into these pieces."""
    message: dict[str, Any] = {}
    content = [value for field, value in pieces if field == "content"]
    if content and all(part.keys() == {"type", "text"} for part in content):
        message["content"] = "".join(part["text"] for part in content)
    elif content:
        message["content"] = [
            each
            for part in content
            for each in (
                {key: value for key, value in part.items() if key != REFERENCES},
                *part.get(REFERENCES, ()),
            )
        ]
    for field, value in pieces:
        if field in encode.LIST_FIELDS:
            message.setdefault(field, []).append(value)
        elif field != "content":
            message[field] = message[field] + value if isinstance(message.get(field), str) else value
    return message


def _split_content(content: Sequence[dict[str, Any]], dialect: Dialect) -> list[Piece]:
    """Split a content into its parts; a reference joins the text before it."""
    pieces: list[Piece] = []
    for part in content:
        before = pieces[-1][1] if pieces else {}
        if dialect.references and part["type"] == "reference" and before.get("type") == "text":
            pieces[-1] = ("content", {**before, REFERENCES: [*before.get(REFERENCES, ()), part]})
        else:
            pieces.append(("content", part))
    return pieces


def native_id(piece: Piece) -> str | None:
    """Return the provider's id of a call."""
    field, value = piece
    return value.get("id") or None if field == "tool_calls" else None


def is_plain_text(piece: Piece) -> bool:
    """Whether a piece is only a text, so that there is nothing to note about it."""
    field, value = piece
    return field == "content" and type(value) is dict and value.keys() == _PLAIN_FIELDS and value["type"] == "text"


def is_call(piece: Piece) -> bool:
    return piece[0] in ("tool_calls", "function_call")


def decode_block(
    piece: Piece, tool_use_id: str, provider: str, *, cut: bool = False
) -> tuple[ContentBlock, dict[str, Any]]:
    """Decode a piece to a block and its note. ``cut``: the call was truncated."""
    field, value = piece
    match field:
        case "content":
            return _decode_part(value, provider)
        case "tool_calls":
            return _decode_tool_call(value, tool_use_id, provider, cut=cut)
        case "function_call":
            return _decode_function_call(value, tool_use_id, cut=cut), {"field": field}
        case "refusal":
            return TextBlock(text=value), {"field": field}
        case thinking_details.DETAILS_FIELD:
            return thinking_details.decode_detail(value, provider)
        case encode.IMAGES_FIELD:
            return _decode_part(value, provider)[0], {"field": field}
        case "audio":
            source = MediaSource(kind="base64", data=value["data"])
            rest = {key: item for key, item in value.items() if key not in ("data", "transcript")}
            return AudioBlock(source=source, transcript=value.get("transcript")), {**rest, "field": field}
        case _:
            return ThinkingBlock(text=value), {"field": field}


def _decode_part(part: dict[str, Any], provider: str) -> tuple[ContentBlock, dict[str, Any]]:
    match part["type"]:
        case "text":
            citations = tuple(Citation(kind=source["type"], data=source) for source in part.get(REFERENCES, ()))
            return TextBlock(text=part["text"], citations=citations), {}
        case "refusal":
            return TextBlock(text=part["refusal"]), {"kind": "refusal"}
        case "thinking":
            text = "".join(inner["text"] for inner in part["thinking"] if inner.get("type") == "text")
            return ThinkingBlock(text=text, signature=part.get("signature")), {"field": "content"}
        case kind:
            pieces = media.decode_media(part, provider)
            return pieces or ProviderBlock(provider=provider, kind=kind, data=part), {}


def _decode_tool_call(
    call: dict[str, Any], tool_use_id: str, provider: str, *, cut: bool
) -> tuple[ContentBlock, dict[str, Any]]:
    """Decode a call. The free text of a custom tool becomes the argument ``input``."""
    if isinstance(call.get("function"), dict):
        return _decode_function_call(call["function"], tool_use_id, cut=cut), {}
    if call["type"] == "custom":
        custom = call["custom"]
        arguments = {"input": custom["input"]} if not cut else {}
        raw = custom["input"] if cut else None
        return ToolUseBlock(id=tool_use_id, name=custom["name"], input=arguments, raw_input=raw), {"kind": "custom"}
    return ProviderBlock(provider=provider, kind=call["type"], data=call), {"field": "tool_calls"}


def _decode_function_call(function: Mapping[str, Any], tool_use_id: str, *, cut: bool) -> ToolUseBlock:
    if not (function["name"] or cut):
        raise ValueError("a call has no name")
    raw: str | None = None
    arguments = function.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else arguments or ""
    if cut:  # what is truncated stays text; some servers send the object itself
        arguments, raw = {}, wirejson.dumps_text(arguments) if isinstance(arguments, dict) else arguments
    elif not isinstance(arguments, dict):
        arguments, raw = wirejson.parse_arguments(arguments)
    return ToolUseBlock(id=tool_use_id, name=function["name"], input=arguments, raw_input=raw)


def diff_piece(piece: Piece, ours: Piece) -> dict[str, Any]:
    """Return what a piece of a request holds beyond our encoding; a missing id is ignored."""
    value, encoded = piece[1], ours[1]
    if not isinstance(value, dict):
        return {}
    value = {key: item for key, item in value.items() if key != REFERENCES}
    if "id" in encoded:
        value = {**value, "id": encoded["id"]}
    inner = encoded.get("type")
    pieces: dict[str, Any] = {}
    if isinstance(value.get(inner), dict) and isinstance(encoded.get(inner), dict):
        if deeper := diff_objects(value[inner], encoded[inner]):
            pieces["inner"] = deeper
        value = {**value, inner: encoded[inner]}
    return (diff_objects(value, encoded) or {}) | pieces


def diff_reply_piece(piece: Piece, ours: Piece) -> dict[str, Any]:
    """Do what `diff_piece` does for a piece of a reply: fields that the provider left out are still sent."""
    note = diff_piece(piece, ours)
    if piece[0] == thinking_details.DETAILS_FIELD:
        return note
    kept = {key: value for key, value in note.get("set", {}).items() if value is not None and key != "index"}
    inner = {key: value for key, value in note.get("inner", {}).get("set", {}).items() if value not in (None, "")}
    return ({"set": kept} if kept else {}) | ({"inner": {"set": inner}} if inner else {})
