"""Stands in for `PolicyHooks` in a session without a policy: it keeps labels, and judges nothing."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.message_labels import labels_at_end, labels_of_messages, read_labels
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message import Message, Role
from dragoman.effects import intercept
from dragoman.session.effects import Effect, Keep, Turn
from dragoman.tools.toolbox import Toolbox

logger = get_logger("dragoman.session")

UnreadLabels = Literal["refuse", "allow", "read"]
"""Labels are refused, allowed with a warning, or read by something else than a policy, such as a router."""


class NoPolicy:
    """``extensions`` are those of the session's messages, ``unread`` says what labels mean here.

    As a middleware, it stores the labels with new messages.
    """

    async_names: tuple[str, ...] = ()

    def __init__(
        self, extensions: dict[str, Any], labels: frozenset[str], unread: "UnreadLabels", toolbox: Toolbox
    ) -> None:
        self._extensions = extensions
        self._toolbox = toolbox
        self._unread = unread
        self.labels = labels

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle) if self.labels or self._toolbox.definitions else turn

    def adopt(self, prompt: Message) -> Message:
        """Take over the labels of a prompt. Raises ConfigurationError if nothing reads them."""
        self._add((prompt,))
        return prompt

    def restore(self, history: Sequence[Message]) -> None:
        """Restore the labels stored with these messages, except those that were declassified since.

        Raises ConfigurationError if nothing reads them.
        """
        self.labels = labels_at_end(history, self._extensions, self.labels)
        self._check_unread()

    def _check_unread(self) -> None:
        if not self.labels or self._unread == "read":
            return
        names = one_line(", ".join(sorted(self.labels)))
        if self._unread == "refuse":
            raise ConfigurationError(
                f"the data has the labels {names:.200}, but no policy and no router reads them: give the session one, "
                "or pass labels_without_policy='allow'"
            )
        logger.warning("no policy reads the labels %.200s", names)

    def declassify(self, labels: Any, **_: Any) -> NoReturn:
        """Raise DeclassificationError."""
        from dragoman.policy.errors import DeclassificationError

        raise DeclassificationError("a session without a policy has no grant to remove labels")

    def with_extensions(self, turn: Turn, extensions: Any) -> NoReturn:
        """Raise ConfigurationError."""
        raise ConfigurationError("extensions are for the plugins of a policy: give policy=Pipeline([...]) too")

    def fetch_check(
        self, hook: str, message: Message, require: Callable[[Message], str | None] | None, **slots: Any
    ) -> Message:
        """Return the message as it is."""
        return message

    def has_judged(self, messages: Sequence[Message]) -> bool:
        """Return True: nothing judges."""
        return True

    def _add(self, messages: Sequence[Message]) -> None:
        labels = labels_of_messages(messages)
        if not labels <= self.labels:
            self.labels |= labels
            self._check_unread()

    def _handle(self, effect: Effect) -> None:
        """Store the labels of new messages before they are saved: that of a tool's result may be new."""
        if not isinstance(effect, Keep):
            return
        self._add([message for message in effect.messages if message.role is Role.TOOL])
        for message in effect.messages if self.labels else ():
            known = self._extensions.get(message.id) or {}
            labels = sorted(self.labels | read_labels(known))
            self._extensions[message.id] = {**known, "security": {"labels": labels}}
