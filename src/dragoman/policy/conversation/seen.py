"""Which messages the plugins have judged, and for which models: they judge them again for a model that has not received
them."""

from collections.abc import Iterable, Sequence
from operator import attrgetter, is_

from dragoman.canonical.message import Message

_id_of = attrgetter("id")
_ById = dict[str, Message]


class SeenMessages:
    """Messages by their ids, each in the form that was judged: another one with its id has not been seen."""

    def __init__(self) -> None:
        self.judged: _ById = {}
        """Messages as they were judged. A long history has no time for a method of its own."""
        self._by_model: dict[str, _ById] = {}
        """What each model received or wrote."""
        self._replacements: dict[str, list[tuple[Message, Message]]] = {}
        """What is sent in place of messages that are not in the history themselves, such as those with file content:
        one has several forms if models take different media."""
        self._just_checked: tuple[str | None, _ById] = (None, {})

    def begin_turn(self, history: Sequence[Message]) -> Sequence[int]:
        """Return the places of the messages that are not judged. What is not in the history is forgotten."""
        judged, ids = self.judged, [*map(_id_of, history)]
        if not judged:
            return range(len(history))
        if all(map(is_, map(judged.get, ids), history)):
            self.judged = dict(zip(ids, history, strict=True))
            return ()
        self.judged = {each.id: each for each in history if judged.get(each.id) is each}
        return [index for index, each in enumerate(history) if self.judged.get(each.id) is not each]

    def is_judged(self, messages: Iterable[Message], *, in_any_form: bool = False) -> bool:
        """Whether each of the messages was judged: as it is, or ``in_any_form``."""
        judged = self.judged
        if in_any_form:
            return all(each.id in judged for each in messages)
        return all(judged.get(each.id) is each for each in messages)

    def note_checked(self, model: str | None, messages: Iterable[Message]) -> None:
        """Record messages that were just checked as input of the next request to this model."""
        self._just_checked = (model, {each.id: each for each in messages})

    def note_reply(self, model: str, reply: Message) -> None:
        """Record a message that this model wrote."""
        self._by_model.setdefault(model, {})[reply.id] = reply

    def note_sent(self, model: str, messages: Sequence[Message]) -> None:
        """Record all messages of a request."""
        self._by_model[model] = dict(zip(map(_id_of, messages), messages, strict=True))

    def find_unchecked(self, model: str, messages: Sequence[Message], new: int) -> frozenset[int]:
        """Return the places of the messages to check before a request, which uses up what `note_checked` recorded.
        Those from the place ``new`` on are checked for each request.
        """
        (checked_model, checked), self._just_checked = self._just_checked, (None, {})
        known, places = self._by_model.get(model, {}), range(new, len(messages))
        unchecked = [*places]
        earlier = messages[:new]
        if not all(map(is_, map(known.get, map(_id_of, earlier)), earlier)):
            unchecked += [index for index, each in enumerate(earlier) if known.get(each.id) is not each]
        if checked_model == model:
            unchecked = [index for index in unchecked if checked.get(messages[index].id) is not messages[index]]
        return frozenset(unchecked)

    def replacement(self, message: Message) -> Message | None:
        """Return what is sent in place of the message, if it was replaced."""
        forms = self._replacements.get(message.id, ())
        return next((sent for given, sent in forms if given is message), None)

    def replace(self, message: Message, replacement: Message) -> None:
        forms = [form for form in self._replacements.get(message.id, ()) if form[0] is not message]
        self._replacements[message.id] = [*forms, (message, replacement)]

    def visible(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with their replacements; the same object if none has one."""
        if not self._replacements:
            return messages
        return [self.replacement(message) or message for message in messages]
