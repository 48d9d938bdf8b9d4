"""Recalls the labels of a conversation that a client sends again, and notes those of the turn that is made of it."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

from dragoman import AsyncClient, Message, RequestContext, Role, ToolResultBlock, ToolUseBlock
from dragoman.policy import Capability
from dragoman_gateway.errors import DeniedError

UnknownHistory = Literal["label", "refuse"]
"""What happens to a conversation with earlier answers or results that are not recognised: it gets all labels of its
key's conversations, or is refused."""


ALL = "all"
"""The key of all conversations of an owner."""
_OUTSIDE = (Role.ASSISTANT, Role.TOOL)
"""Who says what a client had from elsewhere. What a user says is judged each time, and greets in many conversations."""


BlockKeys = dict[int, tuple[object, str]]
"""The keys of blocks by the identity of the block, which stands beside its key and so stays what it is."""
_MANY = 500
"""Messages whose keys are made in another thread."""


class LabelStore(Protocol):
    """Keeps labels by the owner of a conversation; `dragoman_gateway.stored.call_state.ConversationLabels` is one."""

    async def find(self, owner: str, keys: Any, /) -> dict[str, frozenset[str]]: ...

    async def note(self, owner: str, keys: Any, labels: frozenset[str], /) -> None: ...


class Recall:
    """The labels of one conversation of an owner."""

    def __init__(
        self,
        store: LabelStore,
        owner: str,
        context: RequestContext,
        provider: str,
        client: AsyncClient,
        kept: BlockKeys | None = None,
    ) -> None:
        """``context`` is that of the request, ``provider`` the one whose wire the client has. ``kept`` are the keys
        of the blocks of the conversation's earlier request, and become those of this one.

        If nothing of ``client`` reads labels, nothing is looked up, and only labels that arise are noted: a
        conversation that nothing recognises later gets all labels of its owner."""
        policy = client.config.policy
        self._reads = client.config.router is not None or (
            policy is not None and any(Capability.READ_LABELS in each.capabilities for each in policy.plugins)
        )
        self._store = store
        self._owner = owner
        self._tool_ids = context.tool_ids
        self._provider = provider
        self._new: set[str] = set()
        self._unread: Sequence[Message] = ()
        self._kept: BlockKeys = {} if kept is None else kept

    async def labels(self, messages: Sequence[Message], unknown: UnknownHistory) -> frozenset[str]:
        """Return the labels of what is known of these messages.

        Raises DeniedError for a history that is not recognised, if it is to be refused, and UnavailableError.
        """
        if not self._reads:
            self._unread = messages
            return frozenset()
        if len(messages) < _MANY:
            keys = self._keys_of(messages)
        else:  # it would hold up the requests of others
            keys = await asyncio.to_thread(self._keys_of, messages)
        known = await self._store.find(self._owner, {ALL}.union(*keys))
        every = known.pop(ALL, frozenset())
        answers = [own for own, each in zip(keys, messages, strict=True) if each.role in _OUTSIDE]
        self._new = set[str]().union(*answers) - known.keys()
        labels = frozenset[str]().union(*known.values())
        last = max((index for index, each in enumerate(messages) if each.role is Role.ASSISTANT), default=-1)
        earlier = (each for index, each in enumerate(messages[: last + 1]) if keys[index].isdisjoint(known))
        if any(each.role in _OUTSIDE for each in earlier):
            if every and unknown == "refuse":
                raise DeniedError("this conversation holds answers that the gateway does not know: begin a new one")
            labels |= every
        return labels

    async def note(self, reply: Message, labels: frozenset[str]) -> None:
        """Note the labels of the conversation with what was new in it. Raises UnavailableError."""
        if not (self._reads or labels):
            return
        for message in self._unread:
            if message.role in _OUTSIDE:
                self._new.update(self._keys(message))
        await self._store.note(self._owner, self._new | {*self._keys(reply)}, labels)

    def _keys_of(self, messages: Sequence[Message]) -> list[frozenset[str]]:
        found = [frozenset(self._keys(message)) for message in messages]
        present = {id(block) for message in messages for block in message.content}
        for gone in self._kept.keys() - present:
            del self._kept[gone]
        return found

    def _keys(self, message: Message) -> Iterator[str]:
        for block in message.content:
            if isinstance(block, (ToolUseBlock, ToolResultBlock)):
                call = block.id if isinstance(block, ToolUseBlock) else block.tool_use_id
                native = self._tool_ids.native_id(call, self._provider)
                yield from (f"call {each}" for each in (call, native) if each)
            known = self._kept.get(id(block))
            if known is None or known[0] is not block:
                content = block.model_dump(mode="json", exclude={"id", "tool_use_id", "citations"}, exclude_none=True)
                text = json.dumps(content, sort_keys=True, ensure_ascii=False)
                known = self._kept[id(block)] = block, f"block {hashlib.sha256(text.encode()).hexdigest()}"
            yield known[1]
