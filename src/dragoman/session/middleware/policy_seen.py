"""Which messages each model has received: a policy checks them again for a model that has not."""

from collections.abc import Iterable, Mapping, Sequence

from dragoman.canonical.message import Message

_NOTHING: Mapping[int, Message] = {}


class SeenMessages:
    """Messages by ``id()``. They are referenced here, so that no other object gets the same ``id()``."""

    def __init__(self) -> None:
        self._by_model: dict[str, dict[int, Message]] = {}
        """What each model received or wrote."""
        self._replacements: dict[int, tuple[Message, Message]] = {}
        """What is sent in place of messages that are not in the history themselves, such as those with file content."""
        self._just_checked: tuple[str | None, frozenset[int]] = (None, frozenset())

    def note_checked(self, model: str | None, messages: Iterable[Message]) -> None:
        """Record messages that were just checked as input of the next request to this model."""
        self._just_checked = (model, frozenset(map(id, messages)))

    def note_reply(self, model: str, reply: Message) -> None:
        """Record a message that this model wrote."""
        self._by_model.setdefault(model, {})[id(reply)] = reply

    def note_sent(self, model: str, messages: Sequence[Message]) -> None:
        """Record all messages of a request."""
        self._by_model[model] = dict(zip(map(id, messages), messages, strict=True))

    def find_unchecked(self, model: str, messages: Sequence[Message], new: int) -> frozenset[int]:
        """Return the ids of the messages to check before a request, which uses up what `note_checked` recorded. Those
        from the index ``new`` on are checked for each request.
        """
        (checked_model, checked), self._just_checked = self._just_checked, (None, frozenset())
        unchecked = frozenset(map(id, messages[:new])).difference(self._by_model.get(model, _NOTHING))
        unchecked = unchecked.union(map(id, messages[new:]))
        return unchecked - checked if checked_model == model else unchecked

    def replacement(self, message: Message) -> Message | None:
        """Return what is sent in place of the message, if it was replaced."""
        known = self._replacements.get(id(message))
        return None if known is None else known[1]

    def replace(self, message: Message, replacement: Message) -> None:
        self._replacements[id(message)] = (message, replacement)

    def visible(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with their replacements; the same object if none has one."""
        if not self._replacements:
            return messages
        known = self._replacements
        return [known[id(message)][1] if id(message) in known else message for message in messages]
