"""Reads a provider's request: messages in order, each with the adapter's notes on it."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
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
class _DecodedHistory:
    """What was decoded of the items of one request. ``source`` is what they were read with, and ``marks`` has for each
    place at which the reading may be taken up again: how many items, messages and calls were read before it, and what
    the adapter noted there. ``messages`` are apart from their ids, sessions and times.
    """

    source: tuple[Any, ...]
    items: Sequence[Any]
    marks: Sequence[tuple[int, int, int, Any]]
    messages: Sequence[tuple[Role, tuple[ContentBlock, ...], Channel | None, MessageMetadata]]
    calls: Sequence[Any]
    digests: Sequence[Any]


_ROLES = {role.value: role for role in Role}
"""The roles by their names: a look-up takes a fraction of the time of ``Role(name)``, which raises for other names."""


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
        self.digests: list[Any] | None = None
        """What `state_reader` notes behind each message of the items, if it is kept."""
        self.first = 0
        """The index of the first message of the items."""
        self._marks: list[tuple[int, int, int, Any]] = []
        self._source: tuple[Any, ...] = ()
        self._items: Sequence[Any] = ()
        self._shared: dict[Hashable, MessageMetadata] = {}
        """The metadata of messages whose notes are flags, or none. They share it, because a long history has little
        else."""

    def resume(self, items: Sequence[Any], *facts: Any) -> tuple[int, Any]:
        """Add the messages of the items that the context keeps decoded. Return the index of the first item that is
        left to decode, and what the adapter noted before it; 0 and None for a history that is new.

        ``facts`` are all that decides how an item is decoded, beside the items before it.
        """
        kept, tool_ids = self.context.kept_history, self.context.tool_ids
        if kept is None:
            return 0, None
        self.first, self.digests, self._items = len(self.messages), [], items
        self._source = (self.provider, self.model, facts)
        known: _DecodedHistory | None = kept.decoded
        if known is None or known.source != self._source or tool_ids.calls_of_history:
            return 0, None
        same = 0
        for kept_item, item in zip(known.items, items, strict=False):
            if kept_item is not item:
                break
            same += 1
        place = bisect_right(known.marks, same, key=itemgetter(0))
        if not place:
            return 0, None
        count, messages, calls, state = known.marks[place - 1]
        if not tool_ids.repeat_history(self.provider, known.calls[:calls]):
            return 0, None
        self.digests, self._marks = list(known.digests[:messages]), list(known.marks[:place])
        context, now = self.context, self.context.clock()
        session_id, new_id = context.session_id, context.new_id
        self.messages += [
            assemble_message(
                id=new_id(),
                session_id=session_id,
                role=role,
                content=content,
                channel=channel,
                metadata=metadata,
                created_at=now,
                is_checked=True,
            )
            for role, content, channel, metadata in known.messages[:messages]
        ]
        return count, state

    def mark(self, count: int, state: Any = None) -> None:
        """Note that so many items are read, and that what follows depends on them by the ids of calls and by ``state``
        alone, which nothing changes."""
        if self.digests is not None and not self._calls:
            calls = self.context.tool_ids.calls_of_history
            self._marks.append((count, len(self.messages) - self.first, len(calls), state))

    def keep(self) -> None:
        """Give the context what was decoded."""
        if self.digests is None or (kept := self.context.kept_history) is None or not self._marks:
            return
        count, messages, calls, _ = self._marks[-1]
        kept.decoded = _DecodedHistory(
            self._source,
            self._items[:count],
            self._marks,
            [(each.role, each.content, each.channel, each.metadata) for each in self.messages[self.first :][:messages]],
            self.context.tool_ids.calls_of_history[:calls],
            self.digests[:messages],
        )

    def role(self, word: str) -> Role:
        """Return the role of that name. Raises ValueError if there is none."""
        return _ROLES.get(word) or Role(word)

    def call_id(self, native: str | None) -> str:
        """Return the canonical id of a call in an assistant's message."""
        canonical = self.context.tool_ids.receive_history(self.provider, native)
        if native:
            self._calls[canonical] = native
        return canonical

    def result_id(self, native: str | None) -> str:
        """Return the canonical id of the call that a result refers to: the latest of that id, or a new one for an
        orphan."""
        tool_ids = self.context.tool_ids
        if native and (found := tool_ids.find(self.provider, native)):
            return found
        return tool_ids.receive_history(self.provider, native)

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
        own: dict[str, Any] = {}
        if role is Role.ASSISTANT:
            if self._calls:
                raw, self._calls = {**raw, "tool_ids": self._calls}, {}
        elif role is Role.TOOL and content and isinstance(content[0], ToolResultBlock):
            own["parent_tool_use_id"] = content[0].tool_use_id
        if breakpoints:
            own["cache_breakpoints"] = breakpoints
        has_values = not _FLAGS.issuperset(map(type, raw.values()))
        key = None if own or has_values else (role, *raw.items())
        if key is not None and (shared := self._shared.get(key)) is not None:
            return shared
        note = {"by": self.provider, **raw}
        if role is Role.ASSISTANT:
            own |= {"model": f"{self.provider}:{self.model}", "provider": self.provider}
        made = assemble_metadata(provider_raw=copy_json(note) if has_values else note, **own)
        if key is not None:
            self._shared[key] = made
        return made


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
