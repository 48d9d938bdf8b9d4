"""State that only the provider can read, on its way through a client (docs/answers.md#state).

Signatures, encrypted reasoning and native blocks go into a sealed envelope in an opaque field of the client's wire,
or into a store by tool call if the wire has no such field. An envelope holds the state of one block, or the rest of the
message: its adapter's notes, its tool ids and the order of its blocks. Each note belongs to one block, which is known
by the id of its call or by a digest of its text: what a client does to one block concerns no other.

An envelope's text repeats a mark, so that a damaged one is still recognised, and never taken for a signature of the
wire's own provider.
"""

import base64
import binascii
import hashlib
import sys
from collections.abc import Collection, Container, Iterable, Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers import client_ids
from dragoman.adapter.context import RequestContext
from dragoman.adapter.losses import Loss, LossKind
from dragoman.adapter.requests.encode_cache import PREFIX_NOTE, STORED_NOTE
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message

VERSION = 2
MAX_STATE_BYTES = 256 * 1024
"""The largest state of one envelope, in bytes. Larger state is a loss."""

MARK = "DRGMseal"
"""The mark in the text of an envelope. It is valid base64 in both alphabets, and six whole bytes."""
_GROUP = 56
_MAX_DOUBLE = int(sys.float_info.max)
_NOTES = ("list", "store", "api", PREFIX_NOTE, STORED_NOTE)
"""The notes of an adapter on a whole message that its encoder reads when the message goes back."""
_BLOCK_NOTES = ("blocks", "items")
"""Its notes on single blocks."""


def is_envelope(text: str) -> bool:
    """Whether a text is an envelope, or a part of one."""
    return MARK in text.replace("-", "+").replace("_", "/")


def holds_state(body: bytes) -> bool:
    """Whether the body of a client's request holds state that this program has sealed, or a part of such state."""
    return MARK.encode() in body


def to_text(sealed: bytes) -> str:
    """Return the text of an envelope."""
    encoded = base64.b64encode(sealed).decode()
    groups = [encoded[start : start + _GROUP] for start in range(0, len(encoded), _GROUP)]
    return MARK + MARK.join(groups)


def from_text(text: str) -> bytes:
    """Return the bytes of an envelope. Raises ValueError if the text is damaged."""
    standard = text.replace("-", "+").replace("_", "/")
    joined = standard.replace(MARK, "").rstrip("=")
    try:
        sealed = base64.b64decode(joined + "=" * (-len(joined) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"it is not base64: {error}") from None
    if to_text(sealed).rstrip("=") != standard.rstrip("="):
        raise ValueError("its text was changed")
    return sealed


def digest_text(text: str) -> str:
    """Return a digest of a text without its white space, which clients may change."""
    return hashlib.blake2b("".join(text.split()).encode(), digest_size=12).hexdigest()


def state_binding(context: RequestContext) -> bytes:
    """Return what envelopes are bound to: the team that asked."""
    return wirejson.dumps([VERSION, context.team_id or ""])


def first_binding(context: RequestContext, digest: bytes) -> bytes:
    """Return what envelopes of version 1 are bound to: the team, and the conversation before the reply."""
    return wirejson.dumps([1, context.team_id or "", digest.hex()])


def store_key(context: RequestContext, tool_id: str) -> str:
    """Return the key in the store of the state of a message, by the client's id of its first call."""
    return f"{context.team_id or ''}/{tool_id}"


def content_key(context: RequestContext, history: bytes, reply: bytes) -> str:
    """Return the key in the store for a reply without ids: by digests of the conversation before it and of itself."""
    digest = hashlib.blake2b(history + reply, digest_size=16).hexdigest()
    return f"{context.team_id or ''}/{digest}"


class StateWriter:
    """Writes the state of one reply into envelopes, or into the store.

    Without a sealer every method returns None, and the loss is recorded once for each kind of state.
    """

    def __init__(self, context: RequestContext, issuer: str, reply_id: str, losses: list[Loss]) -> None:
        """``losses`` receives what the client does not get."""
        self._context = context
        self._issuer = issuer
        self.reply_id = reply_id
        """The id of the reply: its envelopes belong together."""
        self.model = context.model
        """The full id of the model that answered."""
        self._losses = losses

    @property
    def can_seal(self) -> bool:
        return self._context.state_sealer is not None

    def seal_thinking(self, index: int, text: str, signature: str | None) -> str | None:
        """Return the envelope for the signature of a block, or for the fact that it has none."""
        entry = {"k": "thinking", "i": index, "d": digest_text(text), "s": signature}
        return self._seal(entry, index, "thinking" if signature else "")

    def seal_redacted(self, index: int, data: str) -> str | None:
        """Return the envelope for a redacted block."""
        return self._seal({"k": "redacted_thinking", "i": index, "s": data}, index, "redacted_thinking")

    def seal_rest(self, message: Message, shown: Container[int], spare: Collection[int] = ()) -> str | None:
        """Return the envelope for the rest of a message; None if nothing of it is opaque.

        ``shown`` are the places of the blocks that the client gets; the others are in the envelope if they mean
        something to their provider. Those of ``spare`` are in it too, and count if the client returns none of them with
        its own envelope.
        """
        if not self._is_opaque(message):
            return None
        if not self.can_seal:
            if self._is_signed(message):
                self._lose(-1, "", "signatures of the provider's own parts cannot go to the client: left out")
            return None
        hidden = _hidden_blocks(message, shown)
        rest = self._rest(message, hidden)
        for place in spare:
            rest["b"][str(place)]["spare"] = message.content[place].model_dump(mode="json")
        return self._seal(rest, -1, "provider" if hidden else "")

    def keep_late(self, message: Message, shown: Container[int]) -> None:
        """Keep what became known after the client's copy of the reply had its last block: in the store, else it is a
        loss."""
        if self._context.state_store is not None:
            if self._is_opaque(message):
                self.store_rest(message, None)
            return
        hidden = _hidden_blocks(message, shown)
        why = "it became known after the text, and there is no store for it: left out"
        for place in map(int, hidden):
            if _is_opaque(block := message.content[place]):
                self._lose(place, block.type, f"{_WHAT[block.type]}: {why}")
        if self._is_signed(message):
            self._lose(-1, "", f"a signature of the provider's own parts: {why}")

    def store_rest(self, message: Message, tool_id: str | None) -> None:
        """Put the whole state of a message into the store, by the client's id of its first call if it has one, and by
        its content. The message has some (`has_rest`)."""
        store = self._context.state_store
        if store is None:
            for index, block in enumerate(message.content):
                if _is_opaque(block):
                    reason = f"the wire has no field for {_WHAT[block.type]}, and there is no store for it: left out"
                    self._lose(index, block.type, reason)
            return
        if (state := self._dump(self._rest(message, _hidden_blocks(message, ())), -1, "")) is None:
            return
        if tool_id is not None:
            store.put(store_key(self._context, tool_id), state)
        store.put(content_key(self._context, self._context.history_digest, digest_content(message.content)), state)

    def has_rest(self, message: Message) -> bool:
        """Whether the message needs more on its way back than a client returns."""
        return _is_stateful(message) or not self._notes(message).keys().isdisjoint((*_NOTES, *_BLOCK_NOTES))

    def _lose(self, index: int, block_type: str, reason: str) -> None:
        self._losses.append(Loss(LossKind.STATE, self.reply_id, index, reason, block_type=block_type))

    def _notes(self, message: Message) -> dict[str, Any]:
        raw = message.metadata.provider_raw
        return raw if raw is not None and raw.get("by") == self._issuer else {}

    def _is_opaque(self, message: Message) -> bool:
        """Whether something of the message means more to its provider than a client can send back."""
        return _is_stateful(message) or self._is_signed(message)

    def _is_signed(self, message: Message) -> bool:
        notes = (self._notes(message).get("blocks") or {}).values()
        return any(isinstance(note, dict) and not SIGNATURE_FIELDS.isdisjoint(note.get("set") or ()) for note in notes)

    def _rest(self, message: Message, hidden: dict[str, Any]) -> dict[str, Any]:
        """Return what the message needs on its way back: an entry for each of its blocks, and the notes on all."""
        raw = self._notes(message)
        ids = (message.metadata.provider_raw or {}).get("tool_ids") or {}
        entries: dict[str, dict[str, Any]] = {}
        for index, block in enumerate(message.content):
            place = str(index)
            entry = entries[place] = _block_entry(block, ids)
            if place in hidden:
                entry["block"] = hidden[place]
            for name, notes in (("n", raw.get("blocks")), ("start", raw.get("items"))):
                if notes and place in notes:
                    entry[name] = notes[place]
        rest: dict[str, Any] = {"k": "rest", "raw": {name: raw[name] for name in _NOTES if name in raw}, "b": entries}
        texts = [block for block in message.content if isinstance(block, TextBlock)]
        if len(texts) > 1:
            rest["lengths"] = [len(block.text) for block in texts]
        return rest | ({"c": message.channel.value} if message.channel else {})

    def _dump(self, entry: dict[str, Any], index: int, kind: str) -> bytes | None:
        """Return the state as bytes; None, and a loss, if it is too large."""
        state = wirejson.dumps({**entry, "v": VERSION, "p": self._issuer, "m": self.model, "r": self.reply_id})
        if len(state) <= MAX_STATE_BYTES:
            return state
        self._lose(index, kind, f"the state is over {MAX_STATE_BYTES} bytes: left out")
        return None

    def _seal(self, entry: dict[str, Any], index: int, kind: str) -> str | None:
        sealer = self._context.state_sealer
        if sealer is None:
            if kind:
                self._lose(index, kind, "there is no key to seal it with: left out")
            return None
        state = self._dump(entry, index, kind)
        return None if state is None else to_text(sealer.seal(state, state_binding(self._context)))


def _block_entry(block: ContentBlock, ids: dict[str, str]) -> dict[str, Any]:
    """Return how a block is known when it comes back, and what its provider called it."""
    entry: dict[str, Any] = {"t": block.type}
    match block:
        case TextBlock():
            entry["d"] = digest_text(block.text)
            if block.citations:  # clients have them in the form of their own wire
                entry["src"] = [source.model_dump(mode="json", exclude_none=True) for source in block.citations]
        case ToolUseBlock():
            entry |= {"call": call_key(block.id), "name": block.name, "a": digest_content((block,)).hex()}
            if native := ids.get(block.id):
                entry["id"] = native
        case _:
            pass
    return entry


def call_key(canonical: str) -> str:
    """Return the canonical id of a call as it is read back from a client."""
    return client_ids.read_tool_id(client_ids.client_tool_id("call_", canonical)) or canonical


def _hidden_blocks(message: Message, shown: Container[int]) -> dict[str, dict[str, Any]]:
    """Return the blocks that the client does not get, and that mean something to their provider, as JSON by place."""
    return {
        str(index): block.model_dump(mode="json")
        for index, block in enumerate(message.content)
        if type(block) in _STATEFUL and index not in shown
    }


SIGNATURE_FIELDS = frozenset({"thoughtSignature", "thought_signature", "extra_content"})
"""The fields of a note that sign the block. They stay valid if the client has added a default to a call's arguments."""

_STATEFUL = frozenset({ProviderBlock, RedactedThinkingBlock, ThinkingBlock})
"""The blocks that mean more to their provider than a client can send back."""


def _is_stateful(message: Message) -> bool:
    return bool(message.channel) or not _STATEFUL.isdisjoint(map(type, message.content))


def _is_opaque(block: ContentBlock) -> bool:
    if isinstance(block, ThinkingBlock):
        return bool(block.signature)
    return isinstance(block, (ProviderBlock, RedactedThinkingBlock))


_WHAT = {
    "thinking": "the signature of thinking",
    "redacted_thinking": "sealed thinking",
    "provider": "a native block",
}


def calls_of(blocks: Sequence[ContentBlock]) -> list[ToolUseBlock]:
    return [block for block in blocks if isinstance(block, ToolUseBlock)]


def digest_content(blocks: Iterable[ContentBlock]) -> bytes:
    """Return a digest of what the blocks say, whatever their layout.

    Thinking and native blocks do not count, and white space does not either: clients change them.
    """
    digest = hashlib.blake2b(digest_size=16)
    for block in blocks:
        digest.update(block_bytes(block))
    return digest.digest()


def block_bytes(block: ContentBlock) -> bytes:
    """Return what counts of a block in a digest."""
    match block:
        case TextBlock():
            return "".join(block.text.split()).encode()
        case ToolUseBlock():
            name = block.name.encode()
            return b"\1" + name + b"\2" + wirejson.dumps(_normalise(block.input)) + (block.raw_input or "").encode()
        case ToolResultBlock():
            return b"\3" + b"".join(map(block_bytes, block.content))
        case block if isinstance(block, MEDIA_BLOCKS):
            return b"\4" + hashlib.blake2b(block.source.data.encode(), digest_size=16).digest()
        case _:
            return b""


def _normalise(value: Any) -> Any:
    """Return a JSON value as any client may write it again: in any order, and with every number as a double."""
    if isinstance(value, dict):
        return {key: _normalise(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_normalise(item) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _MAX_DOUBLE:
        return float(value) + 0.0  # no negative zero
    return value
