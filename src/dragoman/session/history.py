"""The history of a session: what it adds up to, what requests contain of it, and what follows from its end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dragoman.adapter.context import GrowingMessages, HistoryMeasures
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import MalformedReplyError
from dragoman.canonical.blocks import ToolUseBlock, has_only_texts
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.usage import TokenUsage

if TYPE_CHECKING:
    from dragoman.session.cost import Cost, RunningTotals
    from dragoman.session.media import MediaFiles
    from dragoman.transport.fetch import FetchedMedia


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
        sent.measures = self._measures
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
