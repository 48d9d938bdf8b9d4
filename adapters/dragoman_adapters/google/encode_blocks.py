"""Encodes blocks as parts: one block is one part of a content (docs/reference/wires/google.md).

The note of a part is what it holds beyond our encoding of its block: its spelling, a signature, flags. It stays with
the message, so that the provider gets its own part back byte for byte.
"""

import base64
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from dragoman.adapter import wirejson
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman_adapters.google.values.base64_text import restore_base64
from dragoman_adapters.google.values.spelling import restore_spelling

Note = Mapping[str, Any]
"""The adapter's note on a decoded object."""
CUTS = "cuts"
"""The note on a text that arrived in several parts: where the second one and each further one begin, in characters."""

_DEFAULT_TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/pdf"}


def encode_block(block: ContentBlock, wire_id: str | None = None) -> dict[str, Any]:
    """Encode a block. ``wire_id`` is the call's id on this wire, None if it has none."""
    match block:
        case TextBlock():
            return {"text": block.text}
        case ThinkingBlock():
            signed = {"thoughtSignature": block.signature} if block.signature else {}
            return {"text": block.text, "thought": True, **signed}
        case ToolUseBlock():
            return {"functionCall": {**_id_field(wire_id), "name": block.name, "args": block.input}}
        case media if isinstance(media, MEDIA_BLOCKS):
            return encode_media(media)
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def _id_field(wire_id: str | None) -> dict[str, str]:
    return {"id": wire_id} if wire_id else {}


def encode_media(block: MediaBlock) -> dict[str, Any]:
    source, media_type = block.source, block.media_type
    match source.kind:
        case "base64":
            return {"inlineData": {"mimeType": media_type or _DEFAULT_TYPES[block.type], "data": source.data}}
        case "text":
            data = base64.b64encode(source.data.encode()).decode()
            return {"inlineData": {"mimeType": media_type or "text/plain", "data": data}}
        case _:
            if not media_type:
                ending = urlsplit(source.data).path.rpartition(".")[2].lower()
                media_type = read_toml("dragoman_adapters.google", "media_types.toml").get(ending)
            return {"fileData": {**({"mimeType": media_type} if media_type else {}), "fileUri": source.data}}


def encode_tool_result(
    block: ToolResultBlock, name: str, wire_id: str | None, action: ToolUseBlock | None = None
) -> dict[str, Any]:
    """Encode a tool result: its texts under ``output`` or ``error``, its media in ``parts``.

    The result of an ``action`` on a computer may be an object, such as one with the ``url``. An action that needs a
    confirmation has it if it ran.
    """
    texts = [each.text for each in block.content if isinstance(each, TextBlock)]
    media = [encode_block(each) for each in block.content if not isinstance(each, TextBlock)]
    answer = {"error" if block.is_error else "output": "\n".join(texts)} if texts or block.is_error or not media else {}
    if action is not None and not block.is_error:
        answer = action_answer(texts, action) or answer
    encoded: dict[str, Any] = {**_id_field(wire_id), "name": name, "response": answer}
    return {"functionResponse": encoded | ({"parts": media} if media else {})}


def action_answer(texts: Sequence[str], action: ToolUseBlock, confirmed: Any = "true") -> dict[str, Any]:
    """Return the fields of an action's result. ``confirmed`` is the wire's value for an action that needed a
    confirmation, and ran."""
    answer: dict[str, Any] = {}
    for text in texts:
        fields, malformed = wirejson.parse_arguments(text)
        answer |= {"output": text} if malformed else fields
    decision = action.input.get("safety_decision")
    if isinstance(decision, Mapping) and decision.get("decision") == "require_confirmation":
        answer["safety_acknowledgement"] = confirmed
    return answer


def apply_note(encoded: dict[str, Any], note: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the part with its note applied."""
    if not note:
        return encoded
    inner = note.get("inner", {})
    patched = {key: apply_diff(value, inner[key]) if key in inner else value for key, value in encoded.items()}
    merged = restore_base64(apply_diff(patched, note), note.get("base64", ()))
    return restore_spelling(merged, note.get("spelling", ()))


def cut_text(part: dict[str, Any], cuts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield a part of text as the parts in which it arrived."""
    text = part["text"]
    for start, end in itertools.pairwise((0, *cuts, len(text))):
        yield {**part, "text": text[start:end]}
