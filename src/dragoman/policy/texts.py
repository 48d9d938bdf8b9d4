"""Every text of a part that a model may read, also where a view's content leaves it out.

docs/reference/policy.md#not-judged lists what is not here.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

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


def _is_word(value: Any) -> bool:
    """Whether a value is a word without spaces, as an id or a signature is."""
    return not isinstance(value, str) or not any(map(str.isspace, value))


def _texts_of_object(fields: Mapping[str, Any], media_type: str | None) -> Iterator[str]:
    own_type = fields.get("media_type") or fields.get("mime_type") or media_type
    is_model = "type" in fields or "kind" in fields
    for name, value in fields.items():
        if value is None or ((name in _OPAQUE or (is_model and name in _IDS)) and _is_word(value)):
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
