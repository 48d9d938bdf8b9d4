"""Opens the state of providers in what a client sent back, and gives it to the messages that it belongs to.

An envelope that does not open, or that was made for another place, is a loss; nothing of it reaches a provider.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dragoman.adapter.answers import provider_state
from dragoman.adapter.answers.reply_record import Piece, ReplyRecord, State, parse_state
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.adapter.requests.request_reader import HistoryReader
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Channel, Message, Role

_UNCOUNTED_ROLES = (Role.SYSTEM, Role.DEVELOPER)


@dataclass(slots=True)
class _Part:
    """A block of a client's message, with its state if it has one. ``reply`` names the reply that it belongs to."""

    message: Message
    index: int
    block: ContentBlock
    state: State | None = None
    reply: str | None = None


def restore_state(history: HistoryReader) -> list[Message]:
    """Return the messages of a client's request with the state of the providers that answered them.

    Sets ``context.history_digest``, by which a store keeps the state of the reply to this request.
    """
    provider, context, messages = history.provider, history.context, history.messages
    if context.state_store is None and not any(message.role is Role.ASSISTANT for message in messages):
        return messages  # nothing was answered yet, and nothing will be stored
    reader = _StateReader(provider, context)
    digest = _HistoryDigest()
    restored = messages[: digest.resume(history)]
    for is_reply, run in groupby(messages[len(restored) :], key=lambda message: message.role is Role.ASSISTANT):
        if is_reply:
            restored += reader.read_run(list(run), digest)
            continue
        for message in run:
            restored.append(message)
            digest.add(message.role, message.content)
    context.history_digest = digest.value
    if reader.losses:
        context.losses.extend(reader.losses)
        log_losses(tuple(reader.losses), session_id=context.session_id, adapter=provider)
    return restored


class _HistoryDigest:
    """A digest of what a conversation says, whatever the layout of its messages.

    Thinking and native blocks do not count, and white space does not either. Instructions do not count: clients change
    them between requests.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._role: Role | None = None
        self.kept: list[Any] | None = None
        """The digest behind each message so far, while no message has state."""

    @property
    def value(self) -> bytes:
        return self._hash.digest()

    def resume(self, history: HistoryReader) -> int:
        """Take the digest of the messages that an earlier request had. Return how many messages it covers: it ends
        before an answer, whose messages are read together."""
        kept, first, messages = history.digests, history.first, history.messages
        if kept is None or history.context.state_store is not None:
            return 0
        if any(message.role not in _UNCOUNTED_ROLES for message in messages[:first]):
            return 0
        while kept and messages[first + len(kept) - 1].role is Role.ASSISTANT:
            kept.pop()
        self.kept = kept
        if kept:
            state, self._role = kept[-1]
            self._hash = state.copy()
        return first + len(kept)

    def add(self, role: Role, blocks: Iterable[ContentBlock]) -> None:
        if role not in _UNCOUNTED_ROLES:
            if role is not self._role:
                self._role = role
                self._hash.update(b"\0" + role.encode())
            for block in blocks:
                self._hash.update(provider_state.block_bytes(block))
        if self.kept is not None:
            self.kept.append((self._hash.copy(), self._role))


class _StateReader:
    def __init__(self, provider: str, context: RequestContext) -> None:
        self.losses: list[Loss] = []
        self._provider = provider
        self._context = context
        self._firsts = 0
        """How many replies with envelopes of version 1 were read."""
        self._calls: dict[str, State] = {}
        """The state of each call that an envelope names, by its id: clients may move an envelope away from its call."""

    def read_run(self, run: list[Message], digest: _HistoryDigest) -> list[Message]:
        """Return the messages of one run, each reply with state as one message: clients may split a reply."""
        start = digest.value
        if (
            self._context.state_store is None
            and not self._calls
            and all(_OPAQUE.isdisjoint(map(type, message.content)) for message in run)
        ):
            for message in run:
                digest.add(message.role, message.content)
            return run
        digest.kept = None
        parts: list[_Part] = []
        for message in run:
            parts += self._open_message(message, start, digest)
        replies = self._group(parts)
        if not any(part.reply for part in parts):
            stored = self._find_stored(run[0], parts, start)  # a reply that was cut in its thinking says nothing
            if stored is None:
                return run if len(parts) == sum(len(each.content) for each in run) else _as_messages(parts)
            return [self._rebuild(run[0], parts, [stored])]
        restored: list[Message] = []
        for reply in replies:
            states, first = self._states_of(reply), reply[0].message
            if all(state["k"] != "rest" for state in states) and (stored := self._find_stored(first, reply, start)):
                states.append(stored)
            restored += [self._rebuild(first, reply, states)] if states else _as_messages(reply)
        seen: set[str] = set()
        for index, message in enumerate(restored):  # a client may have two replies in one message
            if message.id in seen:
                restored[index] = message.model_copy(update={"id": self._context.new_id()})
            seen.add(message.id)
        return restored

    def _states_of(self, parts: Iterable[_Part]) -> list[State]:
        """Return the state of the blocks, and of calls whose envelope is elsewhere."""
        states = [part.state for part in parts if part.state is not None]
        for part in parts:
            state = self._calls.get(part.block.id) if isinstance(part.block, ToolUseBlock) else None
            if state is not None and not any(state is each for each in states):
                states.append(state)
        return states

    def _group(self, parts: list[_Part]) -> list[list[_Part]]:
        """Return the parts of each reply, in the order of the replies. What belongs to none stays with what is before
        it, and the first with what follows."""
        texts: dict[str, str] = {}
        for part in parts:
            if part.state is None:
                continue
            part.reply = part.state["r"]
            for entry in part.state.get("b", {}).values():
                if "call" in entry:
                    self._calls[entry["call"]] = part.state
                elif entry["t"] == "text" and "d" in entry:
                    texts.setdefault(entry["d"], part.state["r"])
        replies: dict[str, list[_Part]] = {}
        waiting: list[_Part] = []
        current: list[_Part] | None = None
        for part in parts:
            part.reply = part.reply or self._reply_of(part.block, texts)
            if part.reply is not None:
                current = replies.setdefault(part.reply, [])
            if current is None:
                waiting.append(part)
                continue
            current += [*waiting, part]
            waiting = []
        return [*replies.values(), *([waiting] if waiting else [])]

    def _reply_of(self, block: ContentBlock, texts: dict[str, str]) -> str | None:
        """Return the name of the reply that a block without state belongs to; None if no envelope names it."""
        if isinstance(block, ToolUseBlock):
            return self._calls.get(block.id, {}).get("r")
        return texts.get(provider_state.digest_text(block.text)) if isinstance(block, TextBlock) and texts else None

    def _open_message(self, message: Message, start: bytes, digest: _HistoryDigest) -> list[_Part]:
        """Return the blocks of a message with their state, without those that cannot be opened."""
        parts: list[_Part] = []
        said: list[ContentBlock] = []
        before = {start, digest.value} if not _OPAQUE.isdisjoint(map(type, message.content)) else set()
        for index, block in enumerate(message.content):
            said.append(block)
            part = self._open_block(block, before, message, index)
            if part is None:
                continue
            parts.append(part)
            if part.state is None or part.state.get("v") != 1:
                continue
            part.state["r"] = f"1/{self._firsts}"
            if part.state["k"] == "rest":  # it is the end of a reply
                self._firsts += 1
                if index + 1 < len(message.content):
                    digest.add(message.role, said)
                    said = []
                    before = {start, digest.value}
        digest.add(message.role, said)
        return parts

    def _open_block(self, block: ContentBlock, before: set[bytes], message: Message, index: int) -> _Part | None:
        """Return a block with its state; None for a block that was nothing but state, and cannot be opened."""
        text = _opaque_text(block)
        if text is None or not provider_state.is_envelope(text):
            return _Part(message, index, block)
        try:
            return _Part(message, index, block, self._open(text, before))
        except ValueError as error:
            self._lose(message.id, index, block.type, str(error))
        if isinstance(block, ThinkingBlock) and block.text:
            return _Part(message, index, ThinkingBlock(text=block.text))
        return None

    def _open(self, text: str, before: set[bytes]) -> State:
        """Open an envelope. ``before`` are digests of the conversation, to which version 1 is bound. Raises ValueError
        with the reason why it does not open."""
        sealer, context = self._context.state_sealer, self._context
        if sealer is None:
            raise ValueError("there is no key to open it")
        sealed = provider_state.from_text(text)
        why = ""
        firsts = [provider_state.first_binding(context, digest) for digest in sorted(before)]
        for binding in (provider_state.state_binding(context), *firsts):
            try:
                return parse_state(sealer.open(sealed, binding))
            except (ValueError, MalformedReplyError) as error:
                why = str(error)
        raise ValueError(why)

    def _lose(self, message_id: str, index: int, kind: str, why: str) -> None:
        reason = f"state that a client sent back cannot be opened: {why}"
        self.losses.append(Loss(LossKind.STATE, message_id, index, reason, block_type=kind))

    def _find_stored(self, first: Message, parts: Sequence[_Part], history: bytes) -> State | None:
        """Return the state in the store: by the id of a call, else by the content of the reply."""
        store = self._context.state_store
        if store is None:
            return None
        blocks = [part.block for part in parts]
        state = None
        for call in provider_state.calls_of(blocks):
            native = self._context.tool_ids.native_id(call.id, self._provider)
            if native and (state := store.get(provider_state.store_key(self._context, native))):
                break
        if not state:
            reply = provider_state.digest_content(blocks)
            state = store.get(provider_state.content_key(self._context, history, reply))
        if state is None:
            return None
        try:
            return parse_state(state)
        except (ValueError, MalformedReplyError) as error:
            self._lose(first.id, -1, "", str(error))
            return None

    def _rebuild(self, first: Message, parts: Sequence[_Part], states: Sequence[State]) -> Message:
        """Return one message with the state of its provider. ``first`` is the first of the client's."""
        issuer = states[-1]["p"]
        pieces = self._pieces(parts, issuer)
        if any(part.message is not first for part in parts):
            pieces = _join_texts(pieces)
        record = ReplyRecord.of(states, issuer)
        calls = provider_state.calls_of([piece.block for piece in pieces])
        has_id = {call.id: bool(self._context.tool_ids.native_id(call.id, self._provider)) for call in calls}
        blocks, notes, ids = record.finish(record.arrange(pieces, has_id))
        if record.is_changed:
            reason = "the client changed a block of a reply: its provider's notes on it are left out"
            self.losses.append(Loss(LossKind.STATE, first.id, -1, reason))
        for call, native in ids.items():
            self._context.tool_ids.reissue(call, issuer, native)
        # Without the notes on its calls, the reply is written as one of another provider: with what stands for them.
        raw = {"by": issuer, **notes, **({"tool_ids": ids} if ids else {})} if record.is_whole else None
        model = next((state["m"] for state in states if state.get("m")), None)
        fields = {"provider": issuer, "model": model or f"{issuer}:unknown", "provider_raw": raw}
        metadata = first.metadata.model_copy(update=fields)
        named = next((state["c"] for state in states if state.get("c") in set(Channel)), None)
        channel = first.channel if named is None else Channel(named)
        return first.model_copy(update={"content": tuple(blocks), "metadata": metadata, "channel": channel})

    def _pieces(self, parts: Sequence[_Part], issuer: str) -> list[Piece]:
        """Return the blocks with their state, without those that are nothing but state."""
        pieces: list[Piece] = []
        used: set[int] = set()
        done = 0  # how many pieces are complete: later ones may be chunks of the next
        for part in parts:
            block, state = part.block, part.state
            text = block.text if isinstance(block, ThinkingBlock) else ""
            if state is None and _opaque_text(block) is None:
                pieces.append(Piece(block))
                continue
            why = ""
            if state is None:
                # The origin is unknown: the message is its provider's own now, so that provider would get it.
                why = "it is not an envelope, in a reply with envelopes"
            elif state["k"] == "rest":
                continue
            elif state["p"] != issuer or state["i"] in used:
                why = "it belongs to another block"
            elif state["k"] == "redacted_thinking":
                used.add(state["i"])
                pieces.append(Piece(RedactedThinkingBlock(data=state["s"]), state["i"]))
            else:
                used.add(state["i"])
                before = _last_thoughts(pieces[done:])
                whole = "".join(each.text for each in before) + text
                if provider_state.digest_text(whole) == state["d"]:  # a client received it in chunks
                    del pieces[len(pieces) - len(before) :]
                    pieces.append(Piece(ThinkingBlock(text=whole, signature=state["s"]), state["i"]))
                elif provider_state.digest_text(text) == state["d"]:
                    pieces.append(Piece(ThinkingBlock(text=text, signature=state["s"]), state["i"]))
                else:
                    why = "its text is another one"
                done = len(pieces) + (1 if why and text else 0)
            if why:
                self._lose(part.message.id, part.index, block.type, why)
                pieces += [Piece(ThinkingBlock(text=text))] if text else []
        return pieces


def _as_messages(parts: Iterable[_Part]) -> list[Message]:
    """Return the messages of blocks that have no state."""
    contents: dict[int, tuple[Message, list[ContentBlock]]] = {}
    for part in parts:
        contents.setdefault(id(part.message), (part.message, []))[1].append(part.block)
    return [
        message if len(blocks) == len(message.content) and all(a is b for a, b in zip(blocks, message.content))  # noqa: B905  # they are of one length
        else message.model_copy(update={"content": tuple(blocks)})
        for message, blocks in contents.values()
    ]  # fmt: skip


def _last_thoughts(pieces: Sequence[Piece]) -> list[ThinkingBlock]:
    """Return the unsigned thinking at the end."""
    found: list[ThinkingBlock] = []
    for piece in reversed(pieces):
        if not isinstance(piece.block, ThinkingBlock) or piece.block.signature or piece.place is not None:
            break
        found.insert(0, piece.block)
    return found


def _opaque_text(block: ContentBlock) -> str | None:
    if isinstance(block, ThinkingBlock):
        return block.signature
    return block.data if isinstance(block, RedactedThinkingBlock) else None


_OPAQUE = frozenset({ThinkingBlock, RedactedThinkingBlock})
"""The blocks that may hold an envelope."""


def _join_texts(pieces: Sequence[Piece]) -> list[Piece]:
    """Join neighbouring texts, and thinking, that a client received in chunks."""
    joined: list[Piece] = []
    for piece in pieces:
        block, last = piece.block, joined[-1] if joined else Piece(RedactedThinkingBlock(data=""))
        if isinstance(block, TextBlock) and isinstance(last.block, TextBlock):
            joined[-1] = Piece(last.block.model_copy(update={"text": last.block.text + block.text}))
        elif isinstance(block, ThinkingBlock) and isinstance(last.block, ThinkingBlock) and last.place is None:
            text = last.block.text + block.text
            joined[-1] = Piece(ThinkingBlock(text=text, signature=block.signature), piece.place)
        else:
            joined.append(piece)
    return joined
