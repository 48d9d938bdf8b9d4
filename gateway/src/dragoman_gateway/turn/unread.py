"""What a client's body holds besides what its wire reads: unknown fields, and those that no other wire has.

If the bytes of the client go to a provider of its wire, such texts go along. A policy judges them as a message.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from dragoman import AdapterOptions, Message, ToolDefinition

_WORD = re.compile(r"[A-Za-z0-9_.:/$+-]{0,64}")
"""A name of a field, or a word of the wire."""
_WORDS = frozenset(
    {
        "type", "role", "object", "status", "model", "id", "tool_use_id", "call_id", "tool_call_id", "item_id",
        "detail", "format", "media_type", "mime_type", "mimeType", "ttl", "phase", "effort", "summary", "tool_choice",
        "mode", "verbosity", "service_tier", "truncation", "include", "encoding_format", "keep_alive",
    }
)  # fmt: skip
"""Fields with ids and words of the wire. A text with spaces in one of them is judged."""
_OPAQUE = frozenset({"signature", "thoughtSignature", "encrypted_content", "encrypted_index", "encrypted_stdout"})
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")


def unread_texts(
    fields: Mapping[str, Any], messages: Iterable[Message], tools: Iterable[ToolDefinition], options: AdapterOptions
) -> tuple[str, ...]:
    """Return the texts of a body that are in none of what was read from it, each once."""
    known: set[str] = set()
    for message in messages:
        known.update(_leaves([block.__dict__ for block in message.content]))
    for tool in tools:
        known.update(_leaves({name: each for name, each in tool.__dict__.items() if name != "provider_raw"}))
    known.update(_leaves([options.user, options.metadata, options.stop_sequences, options.output_schema]))
    known.update(_leaves([dict(each) for each in options.extra.values()]))
    joined = "\n".join(each for each in known if len(each) < _LONGEST)
    found = (text for text in _texts(fields) if text not in known and not _is_known(text, known, joined))
    return tuple(dict.fromkeys(found))


_LONGEST = 1_000_000
"""Characters. A longer text is known only as a whole."""


def is_word(name: str, value: str) -> bool:
    """Whether the value of a field is an id or a word of the wire."""
    return name in _WORDS and _WORD.fullmatch(value) is not None


def _is_known(text: str, known: set[str], joined: str) -> bool:
    if not text.strip() or text in joined:
        return True
    if (data := _DATA_URL.match(text)) is not None:
        return text[data.end() :] in known
    if text.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(text)
        except ValueError:
            return False
        return all(leaf in known or leaf in joined for leaf in _leaves(parsed))
    return False


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts of a body, except for words of the wire."""
    if isinstance(value, str):
        if not is_word(name, value):
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if not _WORD.fullmatch(key):
                yield key
            if key not in _OPAQUE:
                yield from _texts(each, key)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, name)


def _leaves(value: Any) -> Iterator[str]:
    """Yield all texts of a value, keys too."""
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.model_extra or {})}
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _leaves(each)
    elif isinstance(value, (Sequence, set, frozenset)):
        for each in value:
            yield from _leaves(each)
