"""Stands in for `PolicyHooks` in a session without a policy."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dragoman.canonical.message import Message


class NoPolicy:
    labels: frozenset[str] = frozenset()
    async_names: tuple[str, ...] = ()

    def restore(self, history: Sequence[Message]) -> None:
        """Restore nothing: there are no labels."""

    def declassify(self, labels: Any, **_: Any) -> NoReturn:
        """Raise DeclassificationError."""
        from dragoman.policy.errors import DeclassificationError

        raise DeclassificationError("a session without a policy has no labels, and no grant to remove any")

    def fetch_check(
        self, hook: str, message: Message, require: Callable[[Message], str | None] | None, **slots: Any
    ) -> Message:
        """Return the message as it is."""
        return message

    def has_judged(self, messages: Sequence[Message]) -> bool:
        """Return True: nothing judges."""
        return True
