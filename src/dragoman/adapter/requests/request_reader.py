"""Reads a provider's request: messages in order, each with the adapter's notes on it."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.adapter.wire_diff import are_merged, diff_objects
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Channel, Message, MessageMetadata, Role, assemble_message
from dragoman.canonical.message_fields import assemble_metadata
from dragoman.canonical.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class DecodedItem:
    """What was decoded from an item of a history: its calls and results in order, and its messages, apart from their
    ids, sessions and times. ``source`` are the provider and the model of the reader."""

    source: tuple[str, str]
    calls: tuple["_Call", ...]
    messages: tuple[tuple[Role, tuple[ContentBlock, ...], Channel | None, MessageMetadata], ...]


ROLES = {role.value: role for role in Role}
"""The roles by their names: a look-up takes a fraction of the time of ``Role(name)``, which raises for other names."""


_Call = tuple[bool, str | None, str]
"""Whether it is a result, the native id, and the canonical one."""


class HistoryReader:
    """Collects the ``messages`` of one request. Calls get canonical ids in order of occurrence.

    ``provider`` and ``model`` are those of the adapter that reads, ``context`` is the caller's.
    """

    def __init__(self, provider: str, model: str, context: RequestContext) -> None:
        self.provider = provider
        self.model = model
        self.context = context
        self.messages: list[Message] = []
        self._calls: dict[str, str] = {}
        self._named: list[_Call] = []
        """The calls and results of the item that is being read."""
        self._given: deque[str] = deque()
        """Canonical ids that its calls and results have got already."""
        self._shared: dict[Hashable, MessageMetadata] = {}
        """The metadata of messages whose notes are flags, or none. They share it, because a long history has little
        else."""

    def items(self, native: Sequence[Any]) -> Iterator[Any]:
        """Yield the items that have to be decoded. An item that the context keeps decoded is added as it is. The items
        must not depend on each other but by the ids of calls.
        """
        kept = self.context.kept_items
        if len(kept) != len(native):
            yield from native
            return
        source = (self.provider, self.model)
        for item, known in zip(native, kept, strict=True):
            if known.value is not item:
                yield item
                continue
            if (decoded := known.decoded) is not None and decoded.source == source and self._repeat(decoded):
                continue
            start, self._named = len(self.messages), []
            yield item
            parts = tuple((each.role, each.content, each.channel, each.metadata) for each in self.messages[start:])
            known.decoded = DecodedItem(source, tuple(self._named), parts)

    def _repeat(self, decoded: "DecodedItem") -> bool:
        """Add the messages of an item again. Return False if its calls have other ids here, which they keep."""
        ids = [self._name(is_result, native) for is_result, native, _ in decoded.calls]
        if any(known[2] != new for known, new in zip(decoded.calls, ids, strict=True)):
            self._given.extend(ids)
            return False
        context = self.context
        session_id, new_id, now = context.session_id, context.new_id, context.clock
        for role, content, channel, metadata in decoded.messages:
            message = assemble_message(
                id=new_id(),
                session_id=session_id,
                role=role,
                content=content,
                channel=channel,
                metadata=metadata,
                created_at=now(),
                is_checked=True,
            )
            self.messages.append(message)
        return True

    def _name(self, is_result: bool, native: str | None) -> str:
        tool_ids = self.context.tool_ids
        if is_result and native and (found := tool_ids.find(self.provider, native)):
            return found
        return tool_ids.receive_history(self.provider, native)

    def call_id(self, native: str | None) -> str:
        """Return the canonical id of a call in an assistant's message."""
        canonical = self._given.popleft() if self._given else self._name(False, native)
        self._named.append((False, native, canonical))
        if native:
            self._calls[canonical] = native
        return canonical

    def result_id(self, native: str | None) -> str:
        """Return the canonical id of the call that a result refers to: the latest of that id, or a new one for an
        orphan."""
        canonical = self._given.popleft() if self._given else self._name(True, native)
        self._named.append((True, native, canonical))
        return canonical

    def tools(self, native: Any, decode: Callable[..., list[ToolDefinition]], *arguments: Any) -> list[ToolDefinition]:
        """Return the tools of the request. ``native`` is the list that they are decoded from, and nothing else."""
        if not native:
            return []
        kept = self.context.kept_tools
        if kept is None or kept.value is not native:
            return decode(*arguments)
        if kept.decoded is None or kept.decoded[0] != self.provider:
            kept.decoded = self.provider, tuple(decode(*arguments))
        return list(kept.decoded[1])

    def add(
        self,
        role: Role,
        blocks: Iterable[ContentBlock],
        raw: Mapping[str, Any] | None = None,
        *,
        channel: Channel | None = None,
        cache_breakpoints: tuple[int, ...] = (),
    ) -> Message:
        """Add a message. ``raw`` is for this provider's encoder; an assistant's message counts as the model's own."""
        content, context = tuple(blocks), self.context
        message = assemble_message(
            id=context.new_id(),
            session_id=context.session_id,
            role=role,
            content=content,
            channel=channel,
            metadata=self._metadata(role, content, raw or {}, cache_breakpoints),
            created_at=context.clock(),
        )
        self.messages.append(message)
        return message

    def _metadata(
        self, role: Role, content: tuple[ContentBlock, ...], raw: Mapping[str, Any], breakpoints: tuple[int, ...]
    ) -> MessageMetadata:
        if not (raw or breakpoints or self._calls) and role is not Role.TOOL:
            return self._shared.get(role) or self._share(role, role, raw)
        own: dict[str, Any] = {}
        if role is Role.ASSISTANT:
            if self._calls:
                raw, self._calls = {**raw, "tool_ids": self._calls}, {}
        elif role is Role.TOOL and content and isinstance(content[0], ToolResultBlock):
            own["parent_tool_use_id"] = content[0].tool_use_id
        if breakpoints:
            own["cache_breakpoints"] = breakpoints
        if not _FLAGS.issuperset(map(type, raw.values())):
            return self._new_metadata(role, copy_json({"by": self.provider, **raw}), own)
        if own:
            return self._new_metadata(role, {"by": self.provider, **raw}, own)
        key = (role, *raw.items())
        return self._shared.get(key) or self._share(key, role, raw)

    def _share(self, key: Hashable, role: Role, raw: Mapping[str, Any]) -> MessageMetadata:
        shared = self._shared[key] = self._new_metadata(role, {"by": self.provider, **raw}, {})
        return shared

    def _new_metadata(self, role: Role, note: dict[str, Any], own: dict[str, Any]) -> MessageMetadata:
        if role is Role.ASSISTANT:
            own = {**own, "model": f"{self.provider}:{self.model}", "provider": self.provider}
        return assemble_metadata(provider_raw=note, **own)


_FLAGS = frozenset({bool})
"""The types of the values of notes that many messages share."""


def is_for_another(provider: str, context: RequestContext) -> bool:
    """Whether a model of another provider answers the request, so that its options have to say what it asks for."""
    return context.model.partition(":")[0] != provider


def extra_fields(
    native: Mapping[str, Any], encoded: Mapping[str, Any], conversation: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the fields that our encoder would write differently, as `merge_fields` merges them into its body.

    ``conversation`` names the fields that the canonical messages and tools cover. ``...`` removes a field.
    """
    covered = set(conversation)
    extra: dict[str, Any] = {}
    for key, theirs in native.items():
        ours = encoded.get(key)
        if key in covered:
            continue
        if are_merged(key, ours, theirs):
            if inner := extra_fields(theirs, ours or {}):
                extra[key] = inner
        elif diff_objects({key: theirs}, {key: ours} if key in encoded else {}):
            extra[key] = theirs
    return extra | {key: ... for key in encoded if key not in native and key not in covered}


def parse_request(body: bytes | Mapping[str, Any]) -> dict[str, Any]:
    """Parse the body. Raises RequestError if it is not a JSON object."""
    if type(body) is dict or isinstance(body, Mapping):
        return dict(body)
    try:
        return wirejson.loads_object(body, what="the request")
    except MalformedReplyError as error:
        raise RequestError(error.message) from None
