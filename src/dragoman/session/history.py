"""The history of a session, and what else was billed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.canonical.extensions.message_labels import label_messages
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import TokenUsage
from dragoman.session.cost import Attempts, Cost, OnBilled, RunningTotals, sum_usages


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
    _totals: tuple[RunningTotals, RunningTotals] | None = field(default=None, init=False)
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
        kept, attempts = self._count()
        return sum_usages([kept.usage, attempts.usage])

    @property
    def cost(self) -> Cost:
        """The cost of all messages and attempts."""
        kept, attempts = self._count()
        return kept.cost + attempts.cost

    def _count(self) -> tuple[RunningTotals, RunningTotals]:
        """Count what came since the last time: the list of messages only grows."""
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
        return label_messages(self.messages, self.extensions)

    def mark(self) -> tuple[int, int]:
        """Return the current end, for `since`."""
        return len(self.messages), len(self.attempts.all)

    def since(self, mark: tuple[int, int]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """Return the messages and the attempts that came after that mark."""
        new = label_messages(self.messages, self.extensions, mark[0]) if self.extensions else self.messages[mark[0] :]
        return tuple(new), tuple(self.attempts.all[mark[1] :])

    def last_round(self) -> tuple[Message, ...]:
        """Return the last reply, and what follows it."""
        start = len(self.messages) - 1
        while start > 0 and self.messages[start].role is not Role.ASSISTANT:
            start -= 1
        return label_messages(self.messages, self.extensions, start)

    def billed_since(self, mark: tuple[int, int]) -> list[Message]:
        messages, attempts = self.since(mark)
        return [*messages, *attempts]

    def restore(self, attempts: Iterable[Message], extensions: Mapping[str, Any]) -> None:
        """Add what a stored session had besides its messages."""
        self.attempts, self._totals = Attempts(attempts, self.on_billed), None
        self.extensions.update(extensions)


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
