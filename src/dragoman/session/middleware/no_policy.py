"""Stands in for `PolicyHooks` in a session without a policy: it keeps labels, and judges nothing."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, NoReturn

from dragoman.canonical.extensions.message_labels import labels_at_end, read_labels
from dragoman.canonical.message import Message
from dragoman.session.effects import Effect, Keep, Turn, intercept


class NoPolicy:
    """``extensions`` are those of the session's messages. As a middleware, it stores the labels with new messages."""

    async_names: tuple[str, ...] = ()

    def __init__(self, extensions: dict[str, Any], labels: frozenset[str]) -> None:
        self._extensions = extensions
        self.labels = labels

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle) if self.labels else turn

    def add(self, labels: frozenset[str]) -> None:
        self.labels |= labels

    def restore(self, history: Sequence[Message]) -> None:
        """Restore the labels stored with these messages, except those that were declassified since."""
        self.labels = labels_at_end(history, self._extensions, self.labels)

    def declassify(self, labels: Any, **_: Any) -> NoReturn:
        """Raise DeclassificationError."""
        from dragoman.policy.errors import DeclassificationError

        raise DeclassificationError("a session without a policy has no grant to remove labels")

    def fetch_check(
        self, hook: str, message: Message, require: Callable[[Message], str | None] | None, **slots: Any
    ) -> Message:
        """Return the message as it is."""
        return message

    def has_judged(self, messages: Sequence[Message]) -> bool:
        """Return True: nothing judges."""
        return True

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any]:
        outcome = yield effect
        if isinstance(effect, Keep):
            for message in outcome:
                known = self._extensions.get(message.id) or {}
                labels = sorted(self.labels | read_labels(known))
                self._extensions[message.id] = {**known, "security": {"labels": labels}}
        return outcome
