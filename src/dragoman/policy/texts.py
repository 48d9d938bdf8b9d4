"""The texts of a part that a model may read, and the parts that no policy can judge.

docs/reference/policy.md#not-judged lists what is not here. Kinds without a view, such as those of newer versions, and
opaque native blocks do not pass unchecked. A pipeline denies a message with such a part, or drops the part if
``unknown`` says so.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from dragoman.canonical.blocks import ContentBlock, PromptResultBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.kinds import kind_of
from dragoman.canonical.message_view.parts import UnknownPartError, inner_parts
from dragoman.policy.merging import replace_content

_OPAQUE = frozenset(
    {
        "signature", "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index",
        "encrypted_stdout", "encryptedContent",
    }
)  # fmt: skip
"""Fields that hold what only a provider can read."""
_IDS = frozenset(
    {"type", "id", "tool_use_id", "prompt_request_id", "resource_request_id", "session_id", "provider_raw"}
)
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "image/svg+xml"})

_BASE64 = re.compile(r"[A-Za-z0-9+/_\r\n-]*={0,2}")


def texts_of(parts: Iterable[BaseModel]) -> Iterator[str]:
    """Yield the texts of these parts, at any depth: keys of objects, names, titles, notes, addresses, error messages,
    and text documents in base64."""
    for part in parts:
        yield from _texts({**part.__dict__, **(part.model_extra or {})})


def without_opaque(value: Any) -> Any:
    """Return a JSON value without the fields that only a provider can read."""
    if isinstance(value, Mapping):
        return {key: without_opaque(item) for key, item in value.items() if key not in _OPAQUE}
    return [without_opaque(item) for item in value] if isinstance(value, (list, tuple)) else value


def is_text(media_type: str | None) -> bool:
    """Whether data of this type is a text, in base64."""
    return media_type is not None and (media_type.startswith("text/") or media_type in _TEXT_TYPES)


def decode_text(data: str) -> str | None:
    """Return the text of base64; None if it holds none."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _texts(value: Any, media_type: str | None = None) -> Iterator[str]:
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.model_extra or {})}
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts_of_object(value, media_type)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item)


def _texts_of_object(fields: Mapping[str, Any], media_type: str | None) -> Iterator[str]:
    own_type = fields.get("media_type") or fields.get("mime_type") or media_type
    is_model = "type" in fields or "kind" in fields
    for name, value in fields.items():
        # An id or a signature is a word without spaces: what has some is a text.
        is_id = name in _OPAQUE or (is_model and name in _IDS)
        if value is None or (is_id and not (isinstance(value, str) and any(map(str.isspace, value)))):
            continue
        is_data = (name == "data" and fields.get("kind") == "base64") or name == "blob"
        if is_data or (name == "data" and fields.get("type") == "redacted_thinking"):
            text = decode_text(value) if is_data and is_text(own_type) else None
            if text is not None:
                yield text
            elif not (isinstance(value, str) and _BASE64.fullmatch(value)):
                yield from _texts(value)
            continue
        if not (is_model and str(name).isidentifier()):
            yield str(name)
        yield from _texts(value, own_type if isinstance(own_type, str) else None)


def find_unknown_kind(content: Sequence[ContentBlock]) -> str | None:
    """Return the first kind without a view, at any depth, or None."""
    for block in content:
        if type(block) is TextBlock:  # most are
            continue
        if kind_of(block) is None:
            return str(block.type)
        if isinstance(block, ToolResultBlock):
            inner = find_unknown_kind(block.content)
        elif isinstance(block, PromptResultBlock) and block.messages:
            inner = _unknown_in_prompt(block)
        else:
            continue
        if inner is not None:
            return inner
    return None


def drop_unknown_parts(message: Message) -> Message:
    """Drop the parts without a view. A prompt result with one inside is dropped whole."""
    return replace_content(message, _known_parts(message.content))


def _known_parts(content: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    return tuple(
        block.model_copy(update={"content": _known_parts(block.content)})
        if isinstance(block, ToolResultBlock)
        else block
        for block in content
        if kind_of(block) is not None and not (isinstance(block, PromptResultBlock) and _unknown_in_prompt(block))
    )


def _unknown_in_prompt(block: PromptResultBlock) -> str | None:
    try:
        return find_unknown_kind([part for _, part in inner_parts(block)])
    except UnknownPartError:
        return "unreadable message"
