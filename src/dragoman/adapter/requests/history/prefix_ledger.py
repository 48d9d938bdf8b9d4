"""The prefix ledger: what preceded signed thinking when it was signed (docs/reference/tool-ids.md#prefix-ledger).

Some models bind a signature to everything before it: the system prompt, the tools and all earlier messages. After any
other prefix the block is void, and the provider leaves it out or refuses the request
(docs.claude.com/en/docs/build-with-claude/preserved-thinking). So a digest of the request is noted on the signed reply,
and compared before each later request that sends this reply again.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.message import Message

PREFIX_NOTE = "sealed_prefix"
"""The name of the note in provider_raw."""
STORED_NOTE = "stored_prefix"
"""The name of another note in provider_raw: what preceded a reply that its provider stores."""

_FRAME_FIELDS = ("system", "instructions", "tools")
_FREE_FIELDS = ("cache_control",)
"""Fields that may change without voiding a signature."""
_DIGEST_BYTES = 16


def prefix_note(body: Mapping[str, Any], items: bytes) -> dict[str, Any]:
    """Return the note for a reply to this body, whose list of ``items`` is given as JSON without brackets."""
    return {"frame": _digest_frame(body), "length": len(items), "items": _digest(items).hexdigest()}


def find_void_messages(messages: Iterable[Message], body: Mapping[str, Any], items: bytes) -> list[Message]:
    """Return the signed messages, given in order, whose prefix has changed."""
    frame, rest = _digest_frame(body), memoryview(items)
    digest, position = _digest(b""), 0
    found: list[Message] = []
    for message in messages:
        note = (message.metadata.provider_raw or {})[PREFIX_NOTE]
        length = note["length"]
        if not position <= length <= len(items):
            found.append(message)
            continue
        digest.update(rest[position:length])
        position = length
        # The next item must begin after the digested bytes: the last item before it must not have grown.
        ends = items[length : length + 1] in (b",", b"")
        if not (ends and note["frame"] == frame and note["items"] == digest.hexdigest()):
            found.append(message)
    return found


def has_prefix_note(message: Message) -> bool:
    raw = message.metadata.provider_raw
    return raw is not None and PREFIX_NOTE in raw


def is_signed(block: ContentBlock) -> bool:
    """Whether a block is valid only after the prefix that it was signed with."""
    return isinstance(block, RedactedThinkingBlock) or (isinstance(block, ThinkingBlock) and bool(block.signature))


def _digest_frame(body: Mapping[str, Any]) -> str:
    return _digest(wirejson.dumps([_strip_free_fields(body.get(name)) for name in _FRAME_FIELDS])).hexdigest()


def _strip_free_fields(value: Any) -> Any:
    match value:
        case dict():
            return {key: _strip_free_fields(inner) for key, inner in value.items() if key not in _FREE_FIELDS}
        case list():
            return [_strip_free_fields(inner) for inner in value]
        case _:
            return value


def _digest(data: bytes) -> "blake2b":
    return blake2b(data, digest_size=_DIGEST_BYTES)
