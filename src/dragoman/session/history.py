"""The messages of a session: how they are made, what they add up to, what requests contain of them, and what follows
from the last one."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import ref

from pydantic import BaseModel, ValidationError

from dragoman.adapter.context import GrowingMessages, HistoryMeasures
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.adapter.names import foreign_value
from dragoman.canonical.blocks import TextBlock, ToolResultBlock, ToolUseBlock, has_only_texts, text_block
from dragoman.canonical.guard import is_plain
from dragoman.canonical.message import Message, MessageMetadata, MessageStatus, Role, StopReason, assemble_message
from dragoman.canonical.usage import TokenUsage

if TYPE_CHECKING:
    from dragoman.session.cost import Cost, RunningTotals
    from dragoman.session.identity import Pseudonyms
    from dragoman.session.media import MediaFiles
    from dragoman.transport.fetch import FetchedMedia

_NO_METADATA = MessageMetadata()


class MessageFactory:
    """Makes the messages of a session: with its id, its clock, and the ids of user and team."""

    def __init__(
        self,
        session_id: str,
        new_id: Callable[[], str],
        clock: Callable[[], datetime],
        pseudonyms: "Pseudonyms | None",
    ) -> None:
        self._session_id = session_id
        self._new_id = new_id
        self._clock = clock
        self._pseudonyms = pseudonyms
        self.user_id: str | None = None
        self.team_id: str | None = None

    def identify(self, user_id: str | None, team_id: str | None) -> None:
        """Set the ids that the next messages carry. Raises ConfigurationError if one looks personal."""
        if user_id is None and team_id is None:
            self.user_id = self.team_id = None
            return
        from dragoman.session.identity import resolve_identity  # imported late: many sessions name nobody

        self.user_id, self.team_id = resolve_identity(user_id, team_id, self._pseudonyms)

    def user_message(self, prompt: Any) -> Message:
        """Return a prompt, a `UserInput`, as a message."""
        if isinstance(prompt, str):
            return self.new_message(Role.USER, prompt)
        if isinstance(prompt, Message):
            return self.adopt(_with_valid_media(prompt))
        # There is no MessageBody unless a program has loaded its module.
        bodies = sys.modules.get("dragoman.formats.body.message_body")
        if bodies is not None and isinstance(prompt, bodies.MessageBody):
            from dragoman.formats.body.convert import from_message_body

            return self.adopt(from_message_body(prompt))
        # A block is iterable too (over its fields), so its class decides.
        return self.new_message(Role.USER, (prompt,) if isinstance(prompt, BaseModel) else prompt)

    def tool_message(self, result: ToolResultBlock) -> Message:
        metadata = MessageMetadata(parent_tool_use_id=result.tool_use_id)
        return self.new_message(Role.TOOL, (result,), metadata=metadata)

    def adopt(self, message: Message) -> Message:
        """Give a message without a session id the id of this session."""
        return message if message.session_id else message.model_copy(update={"session_id": self._session_id})

    def new_message(self, role: Role, content: Any, **fields: Any) -> Message:
        """Return a message of this session. Raises RequestError if it cannot have this content."""
        if isinstance(content, list) and content and isinstance(content[0], Mapping) and "role" in content[0]:
            hint = foreign_value("prompt", content)
            raise RequestError(f"a prompt is a text or blocks, and not a list of another library's messages{hint}")
        if not isinstance(content, (str, Iterable)):
            raise RequestError(f"a message is a text or blocks, not a value of the class {type(content).__name__}")
        if self.user_id is not None or self.team_id is not None:
            from dragoman.session.identity import with_identity  # as above

            fields["metadata"] = with_identity(fields.get("metadata"), self.user_id, self.team_id)
        new_id, created_at = self._new_id(), self._clock()
        if type(content) is str and type(new_id) is str and is_plain(content):
            metadata = fields.get("metadata", _NO_METADATA)
            return assemble_message(
                id=new_id, session_id=self._session_id, role=role, content=(text_block(content),), channel=None,
                metadata=metadata, created_at=created_at,
            )  # fmt: skip
        try:
            message = Message(
                id=new_id,
                session_id=self._session_id,
                role=role,
                content=content if isinstance(content, str) else tuple(content),
                created_at=created_at,
                **fields,
            )
        except ValidationError as error:  # its text quotes the content
            mistake = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(map(str, mistake["loc"][:4]))
            raise RequestError(f"this cannot be a message: {place:.80}: {mistake['msg']:.300}") from None
        return message if isinstance(content, str) else _with_valid_media(message)


def _with_valid_media(message: Message) -> Message:
    """Return the message. Raises RequestError if it holds a medium whose data or type no provider takes."""
    if all(type(block) is TextBlock for block in message.content):
        return message
    from dragoman.canonical.rules import check_media  # imported late: most prompts are texts

    for violation in check_media(message.content):
        raise RequestError(f"this cannot be a message: {violation}")
    return message


OnBilled = Callable[[Message], None]
"""Receives each reply that was billed, when it is."""


class Attempts:
    """Replies that were billed and are not part of the history: broken, denied or unusable ones.

    ``all`` lists them in order, without content. The adapter marks the cost of a cut reply as a lower bound; a reply
    that arrived whole keeps its exact cost.
    """

    def __init__(self, known: Iterable[Message] = (), on_billed: OnBilled | None = None) -> None:
        self.all: list[Message] = list(known)
        self._on_billed = on_billed

    def record(self, partial: Message | None, error: Exception | None = None) -> None:
        """Record a reply that is not kept, if the provider may have billed it: it reported its usage, sent content, or
        cannot be read."""
        unreadable = isinstance(error, MalformedReplyError)
        if partial is not None and (partial.usage is not None or partial.content or unreadable):
            self._add(partial)

    def record_unused(self, reply: Message | None, history: Sequence[Message]) -> None:
        """Record the cost of a summary that is not in the history."""
        if reply is not None and all(message.id != reply.id for message in history):
            self._add(reply)

    def _add(self, reply: Message) -> None:
        self.all.append(reply.model_copy(update={"content": ()}))
        if self._on_billed is not None:
            self._on_billed(reply)


@dataclass(slots=True, eq=False)
class History:
    """``extensions`` are those of messages, as JSON by message id: the labels of their data. ``on_billed`` receives
    each reply that is billed from now on."""

    messages: list[Message]
    attempts: Attempts = field(init=False)
    on_billed: OnBilled | None = None
    extensions: dict[str, Any] = field(default_factory=dict)
    reasons_to_wait: dict[str, str] = field(default_factory=dict)
    """Why calls wait for results from elsewhere, by call id. Not stored."""
    _visible: tuple[int, tuple[Message, ...]] = field(default=(0, ()), init=False)
    """How many messages were read, and what a request contains of them."""
    _totals: "tuple[RunningTotals, RunningTotals] | None" = field(default=None, init=False)
    """Those of the messages and of the attempts; None before the first use."""

    def __post_init__(self) -> None:
        self.attempts = Attempts(on_billed=self.on_billed)

    def add(self, messages: Iterable[Message]) -> None:
        """Add the messages of a turn."""
        for message in messages:
            self.messages.append(message)
            if self.on_billed is not None:
                self.on_billed(message)

    @property
    def billed(self) -> list[Message]:
        """All messages and attempts."""
        return [*self.messages, *self.attempts.all]

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all messages and attempts."""
        from dragoman.session.cost import sum_usages  # imported late: many programs ask for no sums

        kept, attempts = self._count()
        return sum_usages([kept.usage, attempts.usage])

    @property
    def cost(self) -> "Cost":
        """The cost of all messages and attempts."""
        kept, attempts = self._count()
        return kept.cost + attempts.cost

    def _count(self) -> "tuple[RunningTotals, RunningTotals]":
        """Count what came since the last time: the list of messages only grows."""
        from dragoman.session.cost import RunningTotals  # as above

        kept, attempts = self._totals = self._totals or (RunningTotals(), RunningTotals())
        kept.add_new(self.messages)
        attempts.add_new(self.attempts.all)
        return kept, attempts

    def to_send(self) -> tuple[Message, ...]:
        """Return the messages that a request contains: summaries in place of the messages that they replace."""
        read, visible = self._visible
        if read < len(self.messages):
            new = self.messages[read:]
            for message in new:
                if message.metadata.summary_of:
                    visible = tuple(apply_summaries(new, visible))
                    break
            else:
                visible = (*visible, *new)
            self._visible = read + len(new), visible
        return visible

    def labelled(self) -> tuple[Message, ...]:
        """Return the messages, each with the labels of its data."""
        return self._labelled_from(0)

    def _labelled_from(self, start: int) -> tuple[Message, ...]:
        if not self.extensions:
            return tuple(self.messages[start:])
        from dragoman.canonical.extensions.message_labels import label_messages  # imported late: most have no labels

        return label_messages(self.messages, self.extensions, start)

    def mark(self) -> tuple[int, int]:
        """Return the current end, for `since`."""
        return len(self.messages), len(self.attempts.all)

    def since(self, mark: tuple[int, int]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Return the messages and the attempts that came after that mark."""
        return self._labelled_from(mark[0]), tuple(self.attempts.all[mark[1] :])

    def last_round(self) -> tuple[Message, ...]:
        """Return the last reply, and what follows it."""
        start = len(self.messages) - 1
        while start > 0 and self.messages[start].role is not Role.ASSISTANT:
            start -= 1
        return self._labelled_from(start)

    def billed_since(self, mark: tuple[int, int]) -> list[Message]:
        messages, attempts = self.since(mark)
        return [*messages, *attempts]

    def restore(self, attempts: Iterable[Message], extensions: Mapping[str, Any]) -> None:
        """Add what a stored session had besides its messages."""
        self.attempts, self._totals = Attempts(attempts, self.on_billed), None
        self.extensions.update(extensions)


class RequestHistory:
    """Returns the history as requests contain it: the same messages, with the content of files in place of their names.

    ``workspace`` and ``fetch`` are as for `MediaFiles`. A history grows at its end: each message is looked at once.
    """

    def __init__(self, workspace: str | Path | None, *, fetch: "Callable[[str], FetchedMedia] | None" = None) -> None:
        self.can_fetch = fetch is not None
        """Whether `read` may wait for the network."""
        self._workspace, self._fetch = workspace, fetch
        self._measures = HistoryMeasures()
        self._known: dict[frozenset[str], _Read] = {}
        """What was read last, by the kinds of media that are fetched."""
        if workspace is not None:
            _ = self.files  # raises for a folder that is not there

    @cached_property
    def files(self) -> "MediaFiles":
        """The files of the session."""
        from dragoman.session.media import MediaFiles  # imported late: most messages are texts

        return MediaFiles(self._workspace, fetch=self._fetch)

    def read(self, history: Sequence[Message], adapter: Adapter | None = None) -> list[Message]:
        """Return the history with file content in place of paths; messages without files are returned as they are.

        URLs are replaced as well where the adapter's model takes none. Raises RequestError.
        """
        fetched = _NO_KINDS
        if adapter is not None and self.can_fetch:
            fetched = self.files.inlined_kinds(adapter.capabilities)
        known = self._known.get(fetched, _NOTHING_READ)
        # Equal messages name the same files, and a comparison of a message with itself takes no time.
        if known.history != history[: len(known.history)]:
            known = _NOTHING_READ
        places, is_large = known.places, known.is_large
        for place, message in enumerate(history[len(known.history) :], len(known.history)):
            if not has_only_texts(message.content):
                is_large = is_large or self.files.is_large(message.content)
                places += (place,) if self.files.names_files(message.content, fetched) else ()
        sent = GrowingMessages(history)
        sent.measures = ref(self._measures)
        if known.sent is not None:
            sent.continues, known.sent.continues = known.sent, None  # a chain would keep all of them
        for place in places:
            sent[place] = self.files.inline_message(sent[place], fetched)
        sent.is_large = is_large or any(self.files.is_large(sent[place].content) for place in places)
        self._known[fetched] = _Read(list(history) if places else sent, places, is_large, sent)
        return sent


@dataclass(frozen=True, slots=True)
class _Read:
    """A history that was read: the places of messages that name files, whether it holds large media, and what requests
    contain of it."""

    history: list[Message] = field(default_factory=list)
    places: tuple[int, ...] = ()
    is_large: bool = False
    sent: GrowingMessages | None = None


_NOTHING_READ = _Read()
_NO_KINDS: frozenset[str] = frozenset()


def may_have_labels(message: Message) -> bool:
    """Whether a message may carry labels, its own or those of messages inside of it."""
    return bool(message.metadata.labels) or not has_only_texts(message.content)


def next_step(reply: Message) -> Literal["ask_again", "run_calls", "end"]:
    """Return what follows a reply. One that its provider paused is sent back as it came, and the provider goes on.

    A reply that reached its length limit may end in an incomplete call, which is answered with an error so that the
    model can try again. Nothing is run after a refusal, or when the context is full and no result would fit.
    """
    metadata = reply.metadata
    if metadata.status is not MessageStatus.COMPLETE:
        return "end"
    if metadata.stop_reason is StopReason.PAUSE:
        return "ask_again"
    if metadata.stop_reason in (StopReason.REFUSAL, StopReason.CONTEXT_OVERFLOW):
        return "end"
    return "run_calls" if any(isinstance(block, ToolUseBlock) for block in reply.content) else "end"


def first_new(history: Sequence[Message]) -> int:
    """Return the index of the first message after the last reply, at most that of the last message."""
    index = len(history)
    while index and history[index - 1].role is not Role.ASSISTANT:
        index -= 1
    return min(index, len(history) - 1)


def apply_summaries(history: Iterable[Message], before: Sequence[Message] = ()) -> list[Message]:
    """Return the messages that a request contains. A summary covers only messages recorded before it, and takes the
    place of the first of them. ``before`` is what a request contained before these messages."""
    visible = list(before)
    for message in history:
        if not (summary_of := message.metadata.summary_of):
            visible.append(message)
            continue
        covered = set(summary_of)
        positions = [position for position, earlier in enumerate(visible) if earlier.id in covered]
        if positions:
            first = positions[0]
            visible[first:] = [message, *(earlier for earlier in visible[first:] if earlier.id not in covered)]
        else:
            visible.append(message)
    return visible
