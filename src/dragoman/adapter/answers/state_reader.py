"""Opens the state of providers in what a client sent back, and gives it to the messages that it belongs to.

An envelope that does not open, or that was made for another place, is a loss; nothing of it reaches a provider.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dragoman.adapter import wirejson
from dragoman.adapter.answers import provider_state
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.losses import Loss, LossKind, log_losses
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
)
from dragoman.canonical.message import Channel, Message, Role

_BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_UNCOUNTED_ROLES = (Role.SYSTEM, Role.DEVELOPER)
"""Instructions do not count for the binding: clients change them between requests."""

_State = dict[str, Any]

_Opened = tuple[Message, list[tuple[ContentBlock, _State | None]]]
"""A message, and its blocks with their state."""


def restore_state(messages: list[Message], provider: str, context: RequestContext) -> list[Message]:
    """Return the messages of a client's request with the state of the providers that answered them.

    Sets ``context.history_digest`` for the reply to this request.
    """
    reader = _StateReader(provider, context)
    restored: list[Message] = []
    run: list[Message] = []  # messages of the assistant that follow each other
    digest = _HistoryDigest()
    for message in messages:
        if message.role is Role.ASSISTANT:
            run.append(message)
            continue
        if run:
            restored += reader.read_run(run, digest)
            run = []
        restored.append(message)
        if message.role not in _UNCOUNTED_ROLES:
            digest.add(message.role, message.content)
    if run:
        restored += reader.read_run(run, digest)
    context.history_digest = digest.value()
    if reader.losses:
        context.losses.extend(reader.losses)
        log_losses(tuple(reader.losses), session_id=context.session_id, adapter=provider)
    return restored


class _HistoryDigest:
    """A digest of what a conversation says, whatever the layout of its messages.

    Thinking and native blocks do not count, and white space does not either.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._role: Role | None = None

    def value(self) -> bytes:
        return self._hash.digest()

    def add(self, role: Role, blocks: Iterable[ContentBlock]) -> None:
        if role is not self._role:
            self._role = role
            self._hash.update(b"\0" + role.encode())
        for block in blocks:
            self._hash.update(provider_state.block_bytes(block))


class _StateReader:
    def __init__(self, provider: str, context: RequestContext) -> None:
        self.losses: list[Loss] = []
        self._provider = provider
        self._context = context
        self._restored = 0
        """How many blocks of the reply are complete: later ones may be chunks of the next."""

    def read_run(self, run: list[Message], digest: _HistoryDigest) -> list[Message]:
        """Return the messages of one run, as one message if they hold state: clients may split a reply."""
        start = digest.value()
        if all(_OPAQUE.isdisjoint(map(type, message.content)) for message in run):
            return self._read_plain_run(run, start, digest)
        opened: list[_Opened] = []
        for message in run:
            opened += self._open_message(message, start, digest)
        stored = None if any(map(_has_state, opened)) else self._find_stored(run, start)
        if stored is not None:
            return [self._rebuild(opened, [stored])]
        return [message for reply in _replies(opened) for message in self._read_reply(reply)]

    def _read_plain_run(self, run: list[Message], start: bytes, digest: _HistoryDigest) -> list[Message]:
        """Return the messages of a run in which nothing can be opened: only the store may have their state."""
        for message in run:
            digest.add(message.role, message.content)
        if (stored := self._find_stored(run, start)) is None:
            return run
        opened: list[_Opened] = [(message, [(block, None) for block in message.content]) for message in run]
        return [self._rebuild(opened, [stored])]

    def _read_reply(self, opened: list[_Opened]) -> list[Message]:
        states = [state for _, blocks in opened for _, state in blocks if state is not None]
        if not states:
            return [_with_content(message, [block for block, _ in blocks]) for message, blocks in opened]
        return [self._rebuild(opened, states)]

    def _open_message(self, message: Message, start: bytes, digest: _HistoryDigest) -> list[_Opened]:
        """Return a message with the state of its blocks; two if a second reply follows the state of a whole one."""
        opened: list[_Opened] = []
        pairs: list[tuple[ContentBlock, _State | None]] = []
        said: list[ContentBlock] = []
        bindings = {start, digest.value()}
        for index, block in enumerate(message.content):
            said.append(block)
            pair = self._open_block(block, bindings, message.id, index)
            if pair is None:
                continue
            pairs.append(pair)
            if pair[1] is not None and pair[1]["k"] == "rest" and index + 1 < len(message.content):
                digest.add(message.role, said)
                bindings = {start, digest.value()}
                opened.append((message, pairs))
                message, pairs, said = message.model_copy(update={"id": self._context.new_id()}), [], []
        digest.add(message.role, said)
        return [*opened, (message, pairs)]

    def _open_block(
        self, block: ContentBlock, bindings: set[bytes], message_id: str, index: int
    ) -> tuple[ContentBlock, _State | None] | None:
        """Return a block with its state; None for a block that was nothing but state, and cannot be opened."""
        text = _opaque_text(block)
        if text is None or not provider_state.is_envelope(text):
            return block, None
        state = self._open(text, bindings, message_id, index, block.type)
        if state is not None:
            return block, state
        return (ThinkingBlock(text=block.text), None) if isinstance(block, ThinkingBlock) and block.text else None

    def _open(self, text: str, bindings: set[bytes], message_id: str, index: int, kind: str) -> _State | None:
        sealer = self._context.state_sealer
        if sealer is None:
            self._lose(message_id, index, kind, "there is no key to open it")
            return None
        why = ""
        try:
            sealed = provider_state.from_text(text)
        except ValueError as error:
            self._lose(message_id, index, kind, str(error))
            return None
        for digest in sorted(bindings):
            try:
                state = sealer.open(sealed, provider_state.state_binding(self._context, digest))
                return _parse_state(state)
            except (ValueError, MalformedReplyError) as error:
                why = str(error)
        self._lose(message_id, index, kind, why)
        return None

    def _lose(self, message_id: str, index: int, kind: str, why: str) -> None:
        reason = f"state that a client sent back cannot be opened: {why}"
        self.losses.append(Loss(LossKind.STATE, message_id, index, reason, block_type=kind))

    def _find_stored(self, run: list[Message], history: bytes) -> _State | None:
        """Return the state in the store: by the id of a call, else by the content of the reply."""
        store = self._context.state_store
        if store is None:
            return None
        blocks = [block for message in run for block in message.content]
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
            return _parse_state(state)
        except (ValueError, MalformedReplyError) as error:
            self._lose(run[0].id, -1, "", str(error))
            return None

    def _rebuild(self, opened: list[_Opened], states: list[_State]) -> Message:
        """Return one message with the state of its provider."""
        first = opened[0][0]
        issuer = states[-1]["p"]
        blocks: list[ContentBlock] = []
        rest: _State | None = next((state for state in states if state["k"] == "rest"), None)
        used: set[int] = set()
        self._restored = 0
        for message, pairs in opened:
            for index, (block, state) in enumerate(pairs):
                self._add_block(blocks, block, state, issuer, used, message.id, index)
        blocks = [_without_sources(block) for block in (_join_texts(blocks) if len(opened) > 1 else blocks)]
        raw: dict[str, Any] = {"by": issuer}
        if rest is not None and rest["p"] == issuer:
            ordered = _order(blocks, rest)
            if ordered is None or provider_state.digest_content(ordered).hex() != rest["d"]:
                reason = "the client changed the blocks of a reply: its provider's notes on them are left out"
                self.losses.append(Loss(LossKind.STATE, first.id, -1, reason))
            else:
                blocks = _with_sources(ordered, rest)
                raw |= rest.get("raw") or {}
                raw |= self._reissue(blocks, rest)
        model = next((state["m"] for state in states if state.get("m")), None)
        fields = {"provider": issuer, "model": model or f"{issuer}:unknown", "provider_raw": raw}
        metadata = first.metadata.model_copy(update=fields)
        channel = Channel(rest["c"]) if rest is not None and rest.get("c") in set(Channel) else first.channel
        return first.model_copy(update={"content": tuple(blocks), "metadata": metadata, "channel": channel})

    def _reissue(self, blocks: Sequence[ContentBlock], rest: _State) -> dict[str, Any]:
        """Give the calls their issuer's own ids: in order, because the client has other ids."""
        natives = rest.get("ids") or {}
        ids: dict[str, str] = {}
        for call, native in zip(provider_state.calls_of(blocks), natives.values(), strict=False):
            ids[call.id] = native
            self._context.tool_ids.reissue(call.id, rest["p"], native)
        return {"tool_ids": ids} if ids else {}

    def _add_block(
        self,
        blocks: list[ContentBlock],
        block: ContentBlock,
        state: _State | None,
        issuer: str,
        used: set[int],
        message_id: str,
        index: int,
    ) -> None:
        """Add a block with its state; nothing for an envelope that is no block."""
        text = block.text if isinstance(block, ThinkingBlock) else ""
        if state is None and _opaque_text(block) is not None:
            # Of nobody knows where: the message is its provider's own now, so that provider would get it.
            self._lose(message_id, index, block.type, "it is no envelope, in a reply with envelopes")
            blocks += [ThinkingBlock(text=text)] if text else []
        elif state is None:
            blocks.append(block)
        elif state["k"] == "rest":
            return
        elif state["p"] != issuer or state["i"] in used:
            self._lose(message_id, index, block.type, "it belongs to another block")
            blocks += [ThinkingBlock(text=text)] if text else []
        elif state["k"] == "redacted_thinking":
            used.add(state["i"])
            blocks.append(RedactedThinkingBlock(data=state["s"]))
        else:
            used.add(state["i"])
            before = _last_thoughts(blocks[self._restored :])
            whole = "".join(each.text for each in before) + text
            if provider_state.digest_text(whole) == state["d"]:  # a client received it in chunks
                del blocks[len(blocks) - len(before) :]
                blocks.append(ThinkingBlock(text=whole, signature=state["s"]))
            elif provider_state.digest_text(text) == state["d"]:
                blocks.append(ThinkingBlock(text=text, signature=state["s"]))
            else:
                self._lose(message_id, index, block.type, "its text is another one")
                blocks += [ThinkingBlock(text=text)] if text else []
            self._restored = len(blocks)


def _has_state(opened: _Opened) -> bool:
    return any(state is not None for _, state in opened[1])


def _replies(opened: Sequence[_Opened]) -> Iterator[list[_Opened]]:
    """Yield the messages of each reply: the state of a whole message ends it."""
    reply: list[_Opened] = []
    for each in opened:
        reply.append(each)
        if any(state is not None and state["k"] == "rest" for _, state in each[1]):
            yield reply
            reply = []
    if reply:
        yield reply


def _without_sources(block: ContentBlock) -> ContentBlock:
    """Return a text without its sources: a client has them in the form of its own wire."""
    return TextBlock(text=block.text) if isinstance(block, TextBlock) and block.citations else block


def _with_sources(blocks: list[ContentBlock], rest: _State) -> list[ContentBlock]:
    """Return the blocks with the sources of their texts, as their provider sent them."""
    sources = iter(rest.get("sources") or ())
    return [
        TextBlock(text=block.text, citations=tuple(Citation(**each) for each in next(sources, ())))
        if isinstance(block, TextBlock)
        else block
        for block in blocks
    ]


def _last_thoughts(blocks: Sequence[ContentBlock]) -> list[ThinkingBlock]:
    """Return the unsigned thinking at the end."""
    found: list[ThinkingBlock] = []
    for block in reversed(blocks):
        if not isinstance(block, ThinkingBlock) or block.signature:
            break
        found.insert(0, block)
    return found


def _opaque_text(block: ContentBlock) -> str | None:
    if isinstance(block, ThinkingBlock):
        return block.signature
    return block.data if isinstance(block, RedactedThinkingBlock) else None


_OPAQUE = frozenset({ThinkingBlock, RedactedThinkingBlock})
"""The blocks that may hold an envelope."""


def _parse_state(data: bytes) -> _State:
    state = wirejson.loads_object(data, what="the state")
    if state.get("k") not in ("thinking", "redacted_thinking", "rest") or not isinstance(state.get("p"), str):
        raise ValueError("it is of a kind that this version does not know")
    return state


def _with_content(message: Message, blocks: list[ContentBlock]) -> Message:
    if len(blocks) == len(message.content) and all(map(_is, blocks, message.content)):
        return message
    return message.model_copy(update={"content": tuple(blocks)})


def _is(one: object, other: object) -> bool:
    return one is other


def _join_texts(blocks: Sequence[ContentBlock]) -> list[ContentBlock]:
    """Join neighbouring texts, and thinking, that a client received in chunks."""
    joined: list[ContentBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(block, TextBlock) and isinstance(last, TextBlock):
            joined[-1] = last.model_copy(update={"text": last.text + block.text})
        elif isinstance(block, ThinkingBlock) and isinstance(last, ThinkingBlock) and not last.signature:
            joined[-1] = ThinkingBlock(text=last.text + block.text, signature=block.signature)
        else:
            joined.append(block)
    return joined


def _split_text(blocks: Sequence[ContentBlock], lengths: Sequence[int]) -> list[ContentBlock]:
    """Split a text that the client's wire joined; other blocks stay as they are."""
    texts = [block for block in blocks if isinstance(block, TextBlock)]
    if len(texts) != 1 or sum(lengths) != len(texts[0].text):
        return list(blocks)
    ends = list(accumulate(lengths))
    parts = [TextBlock(text=texts[0].text[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    return [*parts, *(block for block in blocks if not isinstance(block, TextBlock))]


def _order(blocks: Sequence[ContentBlock], rest: Mapping[str, Any]) -> list[ContentBlock] | None:
    """Return the blocks in the order of the original message, with those that the client did not get.

    None if the blocks are not those of the message.
    """
    order, hidden = rest.get("order") or [], rest.get("blocks") or {}
    queues: dict[str, list[ContentBlock]] = {}
    for block in _split_text(blocks, rest.get("lengths") or ()):
        if isinstance(block, TextBlock) and not block.text:
            continue
        queues.setdefault(block.type, []).append(block)
    ordered: list[ContentBlock] = []
    for index, kind in enumerate(order):
        if (data := hidden.get(str(index))) is not None:
            try:
                ordered.append(_BLOCK.validate_python(data))
            except ValidationError:
                return None
            queues.get(kind, [])[:1] = []  # the client's copy, if it has one
        elif queues.get(kind):
            ordered.append(queues[kind].pop(0))
        elif kind == "text":
            ordered.append(TextBlock(text=""))  # clients leave out empty texts
        else:
            return None
    return ordered if not any(queues.values()) else None
