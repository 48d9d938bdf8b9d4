"""Decides from two schemas alone whether every body of a producer is valid for a consumer.

A yes holds for every body. A no has a body that only the producer's schema accepts or,
if none can be built, a reason.

How: a part is a name and a type, and every part of a schema accepts all names of one glob with all types of another.
So the question is whether such a product of languages is contained in a union of others. Walking through all globs
at once answers it, shortest texts first. Source: docs/reference/message-body.md#compatibility.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.canonical.glob import Glob
from dragoman.formats.body.message_body import MessageBody
from dragoman.formats.body.parts import MessageBodyPart, MessageBodySchemaPart
from dragoman.formats.body.schema import MessageBodySchema
from dragoman.formats.errors import FormatError

MAX_STEPS = 200_000
"""The search ends after this many steps, and the answer is then no."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAME_CHARACTERS = _LETTERS + _LETTERS[:26].upper() + "_-"
_TYPE_CHARACTERS = _LETTERS


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The answer to whether one schema is compatible with another; true or false as a bool. If it is false, ``reason``
    says why, and ``counterexample`` is a body that only the producer's schema accepts.
    """

    compatible: bool
    """Whether every body that the producer's schema accepts is accepted by the consumer's too."""
    reason: str = ""
    counterexample: MessageBody | None = None

    def __bool__(self) -> bool:
        return self.compatible


def is_compatible(producer: MessageBodySchema, consumer: MessageBodySchema) -> Compatibility:
    """Return whether every body that is valid for the producer's schema is valid for the consumer's.

    Raises TypeError if one of them is not a schema.
    """
    for schema in (producer, consumer):
        if not isinstance(schema, MessageBodySchema):
            kind = type(schema).__name__
            raise TypeError(
                f"is_compatible compares two MessageBodySchema, not a {kind}: MessageBodySchema.from_json reads JSON"
            )
    try:
        for index, part in enumerate(producer.parts):
            uncovered = _find_uncovered(part, consumer.parts)
            if uncovered is not None:
                reason = f"part {index} of the producer, {part}: the consumer has no place for all of it"
                return _incompatible(producer, consumer, reason, [uncovered], ())
        needed = [part for part in producer.parts if part.required]
        for index, part in enumerate(consumer.parts):
            if part.required and all(_find_uncovered(each, [part]) is not None for each in needed):
                reason = f"part {index} of the consumer, {part}, is required, but the producer may omit it"
                return _incompatible(producer, consumer, reason, [], [part])
        return Compatibility(True)
    except _TooManyStepsError:
        return Compatibility(False, "the globs are too complex to compare: simplify them")


def _incompatible(
    producer: MessageBodySchema,
    consumer: MessageBodySchema,
    reason: str,
    parts: list["_Example"],
    avoided: Sequence[MessageBodySchemaPart],
) -> Compatibility:
    """Build the negative result, if possible with a body that holds these parts and none of the avoided ones."""
    body_parts = [_build_part(part) for part in parts]
    for needed in producer.parts:
        if needed.required and not any(needed.matches(part) for part in body_parts):
            named_parts = [MessageBodySchemaPart(name=part.name, content_type="**") for part in body_parts if part.name]
            example = _find_uncovered(needed, [*avoided, *named_parts])
            if example is None:
                return Compatibility(False, reason)
            body_parts.append(_build_part(example))
    try:
        body = MessageBody(tuple(body_parts))
    except FormatError:
        return Compatibility(False, reason)
    proves = not producer.check(body) and consumer.check(body)
    return Compatibility(False, reason, body if proves else None)


def _build_part(example: "_Example") -> MessageBodyPart:
    fields = {} if example.name is None else {"name": example.name}
    return MessageBodyPart(**fields, content_type=example.type, content="")


class _Example(NamedTuple):
    name: str | None
    type: str


class _TooManyStepsError(Exception):
    pass


def _find_uncovered(part: MessageBodySchemaPart, covers: Sequence[MessageBodySchemaPart]) -> _Example | None:
    """Return a part that ``part`` accepts and none of the ``covers`` does, or None."""
    budget = _StepBudget()
    names = part.names
    if names is None:
        kind = _find_uncovered_type(part.types, [each.types for each in covers if each.names is None], budget)
        return None if kind is None else _Example(None, kind)
    named = [(each.names, each.types) for each in covers if each.names is not None]
    tried: list[frozenset[int]] = []
    for name, covering in _walk([names, *(glob for glob, _ in named)], _NAMES, budget):
        matched = frozenset(index - 1 for index in covering)
        if any(before <= matched for before in tried):
            continue  # more covers never leave more types
        tried.append(matched)
        kind = _find_uncovered_type(part.types, [named[index][1] for index in sorted(matched)], budget)
        if kind is not None:
            return _Example(name, kind)
    return None


def _find_uncovered_type(types: Glob, covers: Sequence[Glob], budget: "_StepBudget") -> str | None:
    found = _walk([types, *covers], _TYPES, budget)
    return next((kind for kind, covering in found if not covering), None)


def _walk(globs: Sequence[Glob], texts: "_Language", budget: "_StepBudget") -> Iterator[tuple[str, list[int]]]:
    """Yield texts that the first glob matches, shortest first, and the indexes of the others that match: one text for
    each way through all globs.
    """
    alphabet = texts.alphabet(globs)
    start = (texts.start, tuple(glob.start for glob in globs))
    seen = {start}
    waiting = [("", start)]
    for text, (place, states) in waiting:
        if texts.is_whole(place) and globs[0].accepts(states[0]):
            yield text, [index for index, glob in enumerate(globs[1:], 1) if glob.accepts(states[index])]
        for character in alphabet:
            budget.take(len(globs))
            after = texts.advance(place, character)
            if after is None or not (first := globs[0].advance(states[0], character)):
                continue
            rest = (glob.advance(state, character) for glob, state in zip(globs[1:], states[1:], strict=True))
            successor = (after, (first, *rest))
            if successor not in seen:
                seen.add(successor)
                waiting.append((text + character, successor))


class _StepBudget:
    def __init__(self) -> None:
        self._left = MAX_STEPS

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _TooManyStepsError


@dataclass(frozen=True, slots=True)
class _Language:
    """The valid names, or the valid types. A place is a state of the walk; None is the dead state."""

    start: str
    advance: Callable[[str, str], str | None]
    whole: frozenset[str]
    characters: str
    marks: frozenset[str]
    """The characters besides ``characters`` that such a text may have."""

    def is_whole(self, place: str) -> bool:
        return place in self.whole

    def alphabet(self, globs: Iterable[Glob]) -> list[str]:
        """Return the characters that the globs distinguish, and one that stands for all others."""
        written = frozenset[str]().union(*(glob.literals for glob in globs))
        known = sorted(written & (frozenset(self.characters) | self.marks))
        other = [character for character in self.characters if character not in written][:1]
        return [*other, *(character for character in known if character != "/"), "/"]


def _advance_name(place: str, character: str) -> str | None:
    """Names are segments after slashes, and no segment is one dot or two."""
    if character == "/":
        return "/" if place in ("", "segment") else None
    if place == "":
        return None
    if character == "." and place in ("/", ".", ".."):
        return {"/": ".", ".": "..", "..": "segment"}[place]
    return "segment"


def _advance_type(place: str, character: str) -> str | None:
    """A type and a subtype, each of which starts with a letter or a digit."""
    if character == "/":
        return "/" if place == "type" else None
    if place in ("", "/"):
        return {"": "type", "/": "subtype"}[place] if character in _TYPE_CHARACTERS else None
    return place


_NAMES = _Language("", _advance_name, frozenset({"segment"}), _NAME_CHARACTERS, frozenset("."))
_TYPES = _Language("", _advance_type, frozenset({"subtype"}), _TYPE_CHARACTERS, frozenset("!#$&^_.+-"))
