"""Caches the encoded prefix of a history, so that a turn encodes only new messages.

The history of a session only grows. The prefix up to the last change between the assistant's side and the other
side no longer changes: its turns, its items on the wire and its losses stay the same, whatever follows
(docs/reference/tool-ids.md#prefix-law).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from operator import is_
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import Loss
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

_CHUNK_ITEMS = 1024
"""The items of a chunk. A long history as one chunk would be in memory three times."""


class CallKeys:
    """The keys of a history's calls: the id, and for each further call of that id one that no other call has."""

    __slots__ = ("_keys", "_seen")

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._keys: set[str] = set()

    def __contains__(self, tool_use_id: str) -> bool:
        """Whether the next call of that id gets another key."""
        return tool_use_id in self._keys

    def next_key(self, tool_use_id: str) -> str:
        """Return the key of the next call of that id."""
        while True:
            times = self._seen[tool_use_id] = self._seen.get(tool_use_id, 0) + 1
            key = tool_use_id if times == 1 else f"{tool_use_id}~{times}"
            if key not in self._keys:  # the history may have an id that looks like a key of ours
                self._keys.add(key)
                return key

    def with_calls(self, tool_use_ids: Iterable[str]) -> "CallKeys":
        """Return a copy that also holds these calls."""
        later = CallKeys()
        later._seen, later._keys = self._seen.copy(), self._keys.copy()
        for tool_use_id in tool_use_ids:
            later.next_key(tool_use_id)
        return later


@dataclass(frozen=True, slots=True)
class EncodedPrefix:
    """The encoded prefix for one target: messages, their losses, and their items as JSON, in chunks without
    brackets."""

    tool_ids: ToolIdMap | None = None
    options: Any = None
    """The values of the options that decide how messages are encoded."""
    messages: tuple[Message, ...] = ()
    json_chunks: tuple[bytes, ...] = ()
    losses: tuple[Loss, ...] = ()
    keys: CallKeys = field(default_factory=CallKeys)
    with_prefix_note: tuple[Message, ...] = ()
    """The messages that carry a note of the prefix ledger."""
    ledger: Any = None
    """The `PrefixLedger` of the items, if signatures of the model are bound to them."""
    encoder_state: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's state after these messages, needed to encode later ones."""
    provider: str = ""
    sent_ids: Mapping[str, str] = field(default_factory=dict)
    """The provider's ids of the calls by their keys, if the cache is shared."""
    shorter: "EncodedPrefix | None" = None
    """The prefix that this one extends, if the cache is shared."""

    def extend(
        self, tool_ids: ToolIdMap, options: Any, turns: Sequence[Turn], chunks: Iterable[bytes],
        losses: Sequence[Loss], encoder_state: Mapping[str, Any], shared_by: str,
    ) -> "EncodedPrefix":  # fmt: skip
        """Return the prefix with more messages, given as a turn each, their items as JSON, their losses, and the
        adapter's state after them. ``shared_by`` is the provider if the cache is shared, or else empty."""
        calls: list[str] = []
        noted: list[Message] = []
        for turn in turns:  # one loop, because it reads the whole history
            if turn.text is None and turn.role is Role.ASSISTANT:
                calls += [block.id for block in turn.blocks if type(block) is ToolUseBlock]
            if turn.notes and PREFIX_NOTE in turn.notes:
                noted.append(turn.message)
        return replace(
            self,
            tool_ids=tool_ids,
            options=options,
            messages=(*self.messages, *[turn.message for turn in turns]),
            json_chunks=(*self.json_chunks, *chunks),
            losses=(*self.losses, *losses),
            keys=self.keys.with_calls(calls),
            with_prefix_note=(*self.with_prefix_note, *noted),
            encoder_state=deepcopy(encoder_state),
            provider=shared_by,
            sent_ids=tool_ids.sent_to(shared_by) if shared_by else {},
            shorter=self if shared_by and self.messages else None,
        )


EMPTY_PREFIX = EncodedPrefix()


class EncodeCache:
    """The encoded prefixes of one session by target, which holds the model and the adapter's type: two APIs of one
    provider have different items. The session's id map must stay the same."""

    is_shared = False
    """Whether several requests use it, each with its own id map."""
    prefixes: dict[Hashable, EncodedPrefix]
    """What is cached, by target."""

    def __init__(self) -> None:
        self.prefixes = {}

    def find(
        self, target: Hashable, tool_ids: ToolIdMap, messages: Sequence[Message], lead: int
    ) -> EncodedPrefix | None:
        """Return the cached prefix of ``messages`` after their ``lead`` leading instructions; None if there is none.
        The caller compares its options.

        Messages are compared by identity: a comparison by value would cost as much as encoding them.
        """
        found = self.prefixes.get(target)
        if (
            found is not None
            and found.tool_ids is tool_ids
            and len(found.messages) < len(messages) - lead
            and all(map(is_, found.messages, islice(messages, lead, None)))
        ):
            return found
        return None

    def store(self, target: Hashable, prefix: EncodedPrefix) -> None:
        """Keep the prefix for `find`, in place of the one that was kept for this target."""
        self.prefixes[target] = prefix

    def latest_chunks(self) -> tuple[bytes, ...]:
        """Return the chunks of the prefix that a new cache stored last; none if it stored no prefix."""
        return next(reversed(self.prefixes.values()), EMPTY_PREFIX).json_chunks


class SharedEncodeCache(EncodeCache):
    """The encoded prefixes of a conversation that a client sends whole with each request. The messages of a request are
    other objects, with other ids, but they share their content with those of the request before; and each request has
    an id map of its own.
    """

    is_shared = True

    def find(
        self, target: Hashable, tool_ids: ToolIdMap, messages: Sequence[Message], lead: int
    ) -> EncodedPrefix | None:
        """Return the longest prefix whose messages have the same content, before a message that no item of a wire can
        hold with the last of them. Its calls get the ids that they had."""
        found = self.prefixes.get(target)
        if found is None:
            return None
        same = 0
        for old, new in zip(found.messages, islice(messages, lead, None), strict=False):  # the whole history
            if not (
                old.content is new.content
                and old.metadata is new.metadata
                and old.role is new.role
                and old.channel is new.channel
            ):
                break
            same += 1
        while found is not None and not (
            len(found.messages) <= same
            and len(found.messages) < len(messages) - lead
            and find_boundary((found.messages[-1], messages[lead + len(found.messages)]))
            and _has_content(messages[lead + len(found.messages)].content)
        ):
            found = found.shorter
        if found is None or not tool_ids.adopt(found.provider, found.sent_ids):
            return None
        own = tuple(islice(messages, lead, lead + len(found.messages)))
        ids = {old.id: new.id for old, new in zip(found.messages, own, strict=True)} if found.losses else {}
        return replace(
            found,
            tool_ids=tool_ids,
            messages=own,
            losses=tuple(replace(loss, message_id=ids.get(loss.message_id, loss.message_id)) for loss in found.losses),
            with_prefix_note=tuple(filter(has_prefix_note, own)) if found.with_prefix_note else (),
        )

    def store(self, target: Hashable, prefix: EncodedPrefix) -> None:
        self.prefixes[target] = replace(_shorten(prefix, _SHORTER), tool_ids=None)


_SHORTER = 4
"""Prefixes that are kept besides the longest one: clients change the newest messages, such as their cache markers."""


def _shorten(prefix: EncodedPrefix, depth: int) -> EncodedPrefix:
    """Return a prefix without all that it extends but the last few."""
    if prefix.shorter is None:
        return prefix
    return replace(prefix, shorter=_shorten(prefix.shorter, depth - 1) if depth else None)


@dataclass(slots=True)
class EncodedHistory:
    """The message list of a body: the JSON of the cached items, and the new ones."""

    prefix_chunks: tuple[bytes, ...]
    """Chunks of items as JSON."""
    new_items: list[Any]

    def __bool__(self) -> bool:
        return bool(self.prefix_chunks or self.new_items)

    def json_chunks(self) -> tuple[bytes, ...]:
        """Return the JSON of all items; the caller joins the chunks with commas."""
        return (*self.prefix_chunks, *encode_chunks(self.new_items))

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The JSON of a list with a prefix, as pieces of the body."""
        pieces = [piece for chunk in self.json_chunks() for piece in (b",", chunk)]
        return (b"[", *pieces[1:], b"]")


def encode_chunks(items: list[Any]) -> tuple[bytes, ...]:
    """Return the JSON of the items without brackets, in chunks; no chunk if there are no items."""
    starts = range(0, len(items), _CHUNK_ITEMS)
    return tuple(wirejson.dumps(items[start : start + _CHUNK_ITEMS])[1:-1] for start in starts)


def find_boundary(messages: Sequence[Message]) -> int:
    """Return the index of the last message at which the side changes: the prefix may end before it. 0 if there is
    none."""
    for index in range(len(messages) - 1, 0, -1):
        role, previous = messages[index].role, messages[index - 1].role
        if role is Role.USER and previous is Role.ASSISTANT and not messages[index - 1].tool_uses:
            return index
        if role is Role.ASSISTANT and previous in (Role.USER, Role.TOOL):
            return index
    return 0


def find_first_turn(message: Message, turns: Sequence[Turn]) -> int:
    """Return the index of the message's first turn, or 0 if it was changed or does not follow a turn of the other
    side."""
    # Its turns need not be neighbours: a model without parallel calls gets the result of one before the next.
    first = next((index for index, turn in enumerate(turns) if turn.message is message), 0)
    return first if first and begins_stretch(turns[first], turns[first - 1]) else 0


def iter_stretches(turns: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    """Yield the turns in parts that can be encoded separately, each of at least as many turns as a chunk has items."""
    start = 0
    for index in range(_CHUNK_ITEMS, len(turns)):
        if index - start >= _CHUNK_ITEMS and begins_stretch(turns[index], turns[index - 1]):
            yield turns[start:index]
            start = index
    yield turns[start:]


def begins_stretch(turn: Turn, previous: Turn | None = None) -> bool:
    """Whether no item of a wire can hold both turns: a turn that is as its message, after one of the other side; None
    for one that was encoded before.

    Both must have content: a wire may leave out an empty turn and join its neighbours.
    """
    if turn.role is not turn.message.role or SYNTHETIC in turn.origins[:1] or not _has_content(turn.blocks):
        return False
    return previous is None or (
        turn.message is not previous.message
        and (turn.role is Role.ASSISTANT) != (previous.role is Role.ASSISTANT)
        and not previous.has_calls
        and _has_content(previous.blocks)
    )


def _has_content(blocks: Iterable[ContentBlock]) -> bool:
    return any(not isinstance(block, TextBlock) or block.text for block in blocks)


PREFIX_NOTE = "sealed_prefix"
"""The name of a note in provider_raw: what preceded a reply with signed thinking (see `prefix_ledger`)."""
STORED_NOTE = "stored_prefix"
"""The name of a note in provider_raw: what preceded a reply that its provider stores."""
_DIGEST_BYTES = 16


def has_prefix_note(message: Message) -> bool:
    raw = message.metadata.provider_raw
    return raw is not None and PREFIX_NOTE in raw


def digest(data: bytes) -> "blake2b":
    """Return the digest of what precedes a reply, for a note on it."""
    return blake2b(data, digest_size=_DIGEST_BYTES)
