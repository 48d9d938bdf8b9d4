"""Laws of the swap: any history, whoever produced it, and nothing lost without a word."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import Severity
from dragoman.canonical.message import Message, Role
from dragoman.testing.conformance.contract import TOOL
from dragoman.testing.conformance.drawing import History, over_histories
from dragoman.testing.conformance.law import NotTriedError
from dragoman.testing.conformance.return_trip import Trip
from dragoman.testing.conformance.subject import Subject, parsed, texts_of
from dragoman.testing.stream_laws import Trial

_INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)
_GOING_ON = "Continue."
"""What the user is made to say where a model cannot be last; it gives way to what is really said."""


def what_changes_is_a_loss(subject: Subject) -> Iterator[Trial]:
    """A history without losses comes back as it was, and what comes back changed has a loss of its own message."""

    def check(subject: Subject, history: History) -> Iterator[str]:
        trip = Trip.of(subject.adapter, history)
        yield from (f"changed without a loss: {said}" for said in trip.unsaid)
        if not trip.losses and not trip.same:
            yield f"no losses, and {trip.before} came back as {trip.after}"

    yield from over_histories(subject, check)


def no_loss_for_nothing(subject: Subject) -> Iterator[Trial]:
    """A warning is never for nothing: where content is said to be gone, the history comes back changed."""

    def check(subject: Subject, history: History) -> Iterator[str]:
        trip = Trip.of(subject.adapter, history)
        warned = [loss for loss in trip.losses if loss.message_id and loss.severity is Severity.WARNING]
        if trip.same and warned:
            yield f"it came back as it was, with {warned[0]}"

    yield from over_histories(subject, check)


def names_whose_loss_it_is(subject: Subject) -> Iterator[Trial]:
    """Each loss names a message of the history and a block in it, or none for what concerns the whole request."""

    def check(subject: Subject, history: History) -> Iterator[str]:
        lengths = {message.id: len(message.content) for message in history}
        for loss in subject.write(history).losses:
            known = loss.message_id in lengths and loss.block_index < lengths[loss.message_id]
            if not (known or (loss.message_id, loss.block_index) == ("", -1)):
                yield f"nobody's loss: {loss}"
            if not loss.reason:
                yield f"a loss without a reason: {loss}"

    yield from over_histories(subject, check)


def a_longer_history_only_appends(subject: Subject) -> Iterator[Trial]:
    """The prefix law: a request begins with the one before it, in its instructions, its tools and its messages."""

    def check(subject: Subject, history: History) -> Iterator[str]:
        bodies = [parsed(subject.write(shorter, _tools(subject)).body) for shorter in _beginnings(history)]
        if not all(isinstance(body, dict) for body in bodies):
            raise NotTriedError("the body is no JSON object")
        for shorter, longer in pairwise(bodies):
            for name in {**shorter, **longer}:
                if not _grows(shorter.get(name), longer.get(name)):
                    yield f"{name} was {_short(shorter.get(name))}, and became {_short(longer.get(name))}"

    yield from over_histories(subject, check)


def what_is_kept_does_not_show(subject: Subject) -> Iterator[Trial]:
    """A session that grew turn by turn sends the bytes that a fresh one would, and names the same losses."""

    def check(subject: Subject, history: History) -> Iterator[str]:
        context = subject.context()
        for shorter in _beginnings(history):
            grown, fresh = subject.write(shorter, context=context), subject.write(shorter)
            if grown.body != fresh.body:
                yield f"{grown.body!r:.400} was sent instead of {fresh.body!r:.400}"
            if set(grown.losses) != set(fresh.losses):
                yield f"other losses after {len(shorter)} messages"

    yield from over_histories(subject, check)


def _tools(subject: Subject) -> list[Any]:
    return [TOOL] if subject.adapter.capabilities.supports_tools else []


def _beginnings(history: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The beginnings of a history in which something was said, and behind which no answer of a tool is to come."""
    for end in range(1, len(history) + 1):
        asks = any(message.role not in _INSTRUCTING for message in history[:end])
        follows = history[end].role if end < len(history) else None
        goes_on = follows is Role.TOOL or follows is history[end - 1].role is Role.ASSISTANT
        if asks and not goes_on:
            yield history[:end]


def _grows(old: Any, new: Any) -> bool:
    """Whether a part of a request only got longer: lists at their end, the last item of a list at its own."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_grows(old.get(name), new.get(name)) for name in {**old, **new})
    if not (isinstance(old, list) and isinstance(new, list)):
        return bool(old == new)
    same = sum(1 for _ in _alike(old, new))
    gone = old[same:]
    if gone and same < len(new) and _extends(gone[0], new[same]):
        gone = gone[1:]
    return all(_GOING_ON in texts_of(item) for item in gone)


def _alike(old: list[Any], new: list[Any]) -> Iterator[Any]:
    for one, two in zip(old, new, strict=False):
        if one != two:
            return
        yield one


def _extends(old: Any, new: Any) -> bool:
    """Whether an item is the same one with more behind it: neighbours of one role may share an item."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return bool(old == new)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name) and name != "prefix"]
    return all(_is_beginning(old.get(name), new.get(name)) for name in changed)


def _is_beginning(old: Any, new: Any) -> bool:
    """Whether content got longer: a text that was alone may be the first of a list now."""
    before, after = (
        value if isinstance(value, list) else [] if value in (None, "") else [value] for value in (old, new)
    )
    if isinstance(old, str) and isinstance(new, str):
        return new.startswith(old)
    return len(before) <= len(after) and all(
        one == two or (isinstance(one, str) and one in texts_of(two)) for one, two in zip(before, after, strict=False)
    )


def _short(value: Any) -> str:
    return wirejson.dumps_text(value)[:400]
