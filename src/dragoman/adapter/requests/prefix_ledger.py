"""Whether what precedes signed thinking is still what it was signed with.

A reply with signed thinking gets a note: a digest of the frame (instructions and tools), and one of all items before
it, with their length. The items of a cached prefix are digested, and its notes compared, once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.facts.capabilities import ThinkingPolicy
from dragoman.adapter.requests.encode_cache import PREFIX_NOTE, EncodedHistory, EncodedPrefix, digest, encode_chunks
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.message import Message

_FRAME_FIELDS = ("system", "instructions", "tools")
_FREE_FIELD = "cache_control"
"""A field that may change without voiding a signature."""


@dataclass(frozen=True, slots=True)
class PrefixLedger:
    """The items of a list so far, as JSON without brackets, and whether the notes among them agree with it."""

    digest: "blake2b"
    length: int = 0
    frames: frozenset[str] = frozenset()
    """The frames of the notes whose items are still the same."""
    is_intact: bool = True
    """Whether the items before each note are still the same."""

    def read(self, items: bytes, noted: Iterable[Message] = ()) -> tuple["PrefixLedger", list[Message]]:
        """Return the ledger with more items, and those messages of ``noted``, given in order, whose items differ."""
        following = b"," + items if self.length and items else items
        rest, position, read = memoryview(following), 0, self.digest.copy()
        frames, broken = set(self.frames), []
        for message in noted:
            note = _note_of(message)
            end = note["length"] - self.length
            if not position <= end <= len(following):
                broken.append(message)
                continue
            read.update(rest[position:end])
            position = end
            # The next item must begin after the digested bytes: the last item before it must not have grown.
            if following[end : end + 1] in (b",", b"") and note["items"] == read.hexdigest():
                frames.add(note["frame"])
            else:
                broken.append(message)
        read.update(rest[position:])
        length = self.length + len(following)
        return PrefixLedger(read, length, frozenset(frames), self.is_intact and not broken), broken

    def note(self, frame: str) -> dict[str, Any]:
        """Return the note for a reply to a request with that frame, and with these items."""
        return {"frame": frame, "length": self.length, "items": self.digest.hexdigest()}


NO_ITEMS = PrefixLedger(digest(b""))


def digest_frame(body: Mapping[str, Any]) -> str:
    """Return the digest of what stands beside the items."""
    digested = digest(b"[")
    for name in _FRAME_FIELDS:
        value = body.get(name)
        data = b"".join(getattr(value, "pieces", ())) or wirejson.dumps(value)
        digested.update(wirejson.dumps(_strip_free_field(value)) if _FREE_FIELD.encode() in data else data)
        digested.update(b"]" if name is _FRAME_FIELDS[-1] else b",")
    return digested.hexdigest()


def is_signed(block: ContentBlock) -> bool:
    """Whether a block is valid only after the prefix that it was signed with."""
    return isinstance(block, RedactedThinkingBlock) or (isinstance(block, ThinkingBlock) and bool(block.signature))


def extend_ledger(
    shorter: EncodedPrefix, longer: EncodedPrefix, chunks: Iterable[bytes], provider: str, policy: ThinkingPolicy
) -> PrefixLedger:
    """Return the ledger of a prefix, which has these chunks more than the shorter one."""
    noted = _signed(longer.with_prefix_note[len(shorter.with_prefix_note) :], provider, policy)
    known: PrefixLedger = shorter.ledger or NO_ITEMS
    return known.read(b",".join(chunks), noted)[0]


def find_void_messages(
    frame: str,
    prefix: EncodedPrefix,
    history: EncodedHistory,
    uncached: Iterable[Message],
    provider: str,
    policy: ThinkingPolicy,
) -> tuple[PrefixLedger, list[Message]]:
    """Return the ledger of the whole list, and the signed messages before which something has changed. ``uncached``
    are the messages behind the prefix."""
    known: PrefixLedger = prefix.ledger or NO_ITEMS
    noted = list(_signed(uncached, provider, policy))
    if (
        known.is_intact
        and known.frames <= {frame}
        and len(history.prefix_chunks) == len(prefix.json_chunks)  # else instructions stand before it
    ):
        ledger, broken = known.read(b",".join(encode_chunks(history.new_items)), noted)
    else:
        noted = [*_signed(prefix.with_prefix_note, provider, policy), *noted]
        ledger, broken = NO_ITEMS.read(b",".join(history.json_chunks()), noted)
    ids = {id(message) for message in broken}
    return ledger, [message for message in noted if id(message) in ids or _note_of(message)["frame"] != frame]


def _signed(messages: Iterable[Message], provider: str, policy: ThinkingPolicy) -> Iterator[Message]:
    """Yield the messages with signatures that the model can read."""
    for message in {id(message): message for message in messages}.values():
        raw = message.metadata.provider_raw
        if raw and PREFIX_NOTE in raw and raw["by"] == provider and policy.can_read(message.metadata.model):
            yield message


def _note_of(message: Message) -> Mapping[str, Any]:
    """Return the note of a message that has one."""
    note: Mapping[str, Any] = (message.metadata.provider_raw or {})[PREFIX_NOTE]
    return note


def _strip_free_field(value: Any) -> Any:
    match value:
        case dict():
            return {key: _strip_free_field(inner) for key, inner in value.items() if key != _FREE_FIELD}
        case list():
            return [_strip_free_field(inner) for inner in value]
        case _:
            return value
