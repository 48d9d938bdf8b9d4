"""MessageBodySchema: the parts that a message body may have, and those that it must have.

A body is valid if every part matches at least one part of the schema, and every required part of the schema
is matched by at least one part. The order is free, and one part may match several parts of the schema.

The JSON Schema for structured output describes an object with a list of parts. It is narrower than the body's schema,
so that small models too give usable answers: a type glob offers the known types, text is inline, and other data is
base64 or at a URL. Source: docs/reference/message-body.md#schemas.

Decides from two schemas alone whether every body of a producer is valid for a consumer.

A yes holds for every body. A no has a body that only the producer's schema accepts or,
if none can be built, a reason.

How: a part is a name and a type, and every part of a schema accepts all names of one glob with all types of another.
So the question is whether such a product of languages is contained in a union of others. Walking through all globs
at once answers it, shortest texts first. Source: docs/reference/message-body.md#compatibility.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError, to_json
from pydantic_core.core_schema import no_info_plain_validator_function

from dragoman.canonical.events import OutputProblem
from dragoman.canonical.glob import Glob, expand_braces
from dragoman.canonical.message import Message
from dragoman.formats.body.answer_reader import AnswerReader
from dragoman.formats.body.message_body import (
    MessageBody,
    MessageBodyPart,
    MessageBodySchemaPart,
    accepts_part,
    as_parts,
    describe_part,
    missing_parts,
    normalize_type,
    read_parts,
)
from dragoman.formats.document import kind_of, parse
from dragoman.formats.errors import BodyViolation, FormatError, MessageBodyError

Schema = dict[str, Any]

_KNOWN_TYPES = (
    "text/plain", "text/markdown", "text/html", "text/csv", "text/css", "text/xml", "text/javascript", "text/x-python",
    "text/x-rust", "text/x-c", "text/x-java", "text/x-go", "text/x-shellscript", "application/json",
    "application/yaml", "application/xml", "application/toml", "image/svg+xml", "image/png", "image/jpeg", "image/webp",
    "image/gif", "audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm", "application/pdf",
    "application/zip", "application/octet-stream",
)  # fmt: skip
_TEXTUAL = re.compile(r"text/.*|application/(?:json|yaml|xml|toml|javascript)|.*\+(?:json|xml|yaml)")
_SEGMENT = "[A-Za-z0-9._-]"
_TYPE_NAME = "[a-z0-9.+-]"
_SOME, _ANY = "{1,40}", "{0,40}"
"""Names have a maximum length, so that a repetitive model comes to an end."""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_STAR = re.compile(r"\*\*+|\*|[^*]+")
FORMAT = "message_body_schema"


def _part_schemas(part: MessageBodySchemaPart) -> list[Schema]:
    """Return the schemas of one part: as text, as base64, and by URL."""
    types = _allowed_types(part)
    textual = [each for each in types if _TEXTUAL.fullmatch(each)]
    binary = _binary_types(part)
    name = {}
    if part.name is not None:
        named = expand_braces(part.name)
        pattern = "^" + _alternation([_glob_to_regex(each) for each in named]) + "$"
        is_glob = any("*" in each for each in named)
        name = {"name": {"type": "string", "pattern": pattern} if is_glob else _enum_schema(named)}
    kinds = []
    if textual:
        kinds.append(_object_schema({**name, "contentType": _enum_schema(textual), "content": {"type": "string"}}))
    if binary:
        base64 = {"content": {"type": "string"}, "contentEncoding": {"type": "string", "const": "base64"}}
        kinds.append(_object_schema({**name, "contentType": _enum_schema(binary), **base64}))
    if not types:  # a glob without a known type
        # A star stands for a part of a name, as types have them.
        some = _TYPE_NAME + _SOME
        expressions = [
            "".join(some if piece.startswith("*") else _SPECIAL.sub(r"\\\g<0>", piece) for piece in _STAR.findall(each))
            for each in expand_braces(normalize_type(part.content_type))
        ]
        pattern = f"^{_alternation(expressions)}$"
        kind = {"type": "string", "pattern": pattern, "description": f"A MIME type: {part.content_type}"}
        kinds.append(_object_schema({**name, "contentType": kind, "contentUrl": {"type": "string"}}))
    elsewhere = types if part.name is not None else binary
    if elsewhere:
        kinds.append(_object_schema({**name, "contentType": _enum_schema(elsewhere), "contentUrl": {"type": "string"}}))
    return kinds


def _binary_types(part: MessageBodySchemaPart) -> list[str]:
    return [each for each in _allowed_types(part) if not _TEXTUAL.fullmatch(each)]


def _allowed_types(part: MessageBodySchemaPart) -> list[str]:
    """Return the types that a model may use: literal ones, and the known ones that a glob matches."""
    written = [each for each in expand_braces(normalize_type(part.content_type)) if "*" not in each]
    known = [each for each in _KNOWN_TYPES if part.types.matches(each)]
    return list(dict.fromkeys([*written, *known]))


def _glob_to_regex(pattern: str) -> str:
    """Return a regular expression for the names of a glob. It may be too wide, because the reader checks the answer."""
    found = ""
    pieces = _STAR.findall(pattern)
    for index, piece in enumerate(pieces):
        if not piece.startswith("*"):
            found += _SPECIAL.sub(r"\\\g<0>", piece)
            continue
        before = pieces[index - 1] if index else ""
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        if piece == "*":
            whole = before.endswith("/") and (not following or following.startswith("/"))
            found += _SEGMENT + (_SOME if whole else _ANY)
        elif not before:
            found += f"(/{_SEGMENT}{_SOME})" + ("{0,6}" if following else "{1,6}")
        elif before.endswith("/") and not following:
            found += f"{_SEGMENT}{_SOME}(/{_SEGMENT}{_SOME}){{0,6}}"
        else:
            found += "[A-Za-z0-9._/-]{0,99}"
    return found


def _alternation(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else "(" + "|".join(expressions) + ")"


def _enum_schema(values: Sequence[str]) -> Schema:
    return {"type": "string", "const": values[0]} if len(values) == 1 else {"type": "string", "enum": list(values)}


def _object_schema(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class MessageBodySchema:
    """The schema of a body. ``Annotated[MessageBody, schema]`` is the type of the bodies that obey it, for pydantic and
    as the ``output`` of a turn."""

    parts: tuple[MessageBodySchemaPart, ...] = ()
    """The parts that a body may or must have. A part that none of them matches is refused."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", as_parts(self.parts, MessageBodySchemaPart))

    @classmethod
    def from_json(cls, document: Any) -> "MessageBodySchema":
        """Read a schema from JSON text or from Python lists and dicts: a list of parts.

        Raises FormatError, with a path.
        """
        value = parse(document, format_name=FORMAT)
        if not isinstance(value, (list, tuple)):
            raise FormatError(f"the schema of a message body must be a list of parts, not {kind_of(value)}")
        return cls(read_parts(value, MessageBodySchemaPart, "a part of a schema"))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the list of parts, each with the fields that were set."""
        return [part.model_dump(by_alias=True, exclude_unset=True) for part in self.parts]

    def check(self, body: MessageBody) -> tuple[BodyViolation, ...]:
        """Return every violation of a body; an empty tuple if it is valid."""
        unexpected = [
            BodyViolation(f"$[{index}]", f"the schema has no place for {describe_part(part.name, part.content_type)}")
            for index, part in enumerate(body.parts)
            if not self.accepts(part)
        ]
        return (*unexpected, *self.missing(body.parts))

    def enforce(self, body: MessageBody) -> MessageBody:
        """Return a valid body unchanged. Raises MessageBodyError with every violation."""
        if violations := self.check(body):
            raise MessageBodyError(violations)
        return body

    def missing(self, parts: tuple[MessageBodyPart, ...]) -> tuple[BodyViolation, ...]:
        """Return a violation for each required part that is not among these."""
        return missing_parts(self.parts, parts)

    def accepts(self, part: MessageBodyPart) -> bool:
        """Return True if a body may have this part."""
        return accepts_part(self.parts, part)

    def read(self, answer: Message | str) -> MessageBody:
        """Read a model's answer as a body of this schema. Raises MessageBodyError with every violation."""
        ended = None
        if isinstance(answer, Message):
            ended = f"the reply ended with {answer.stop_reason}" if answer.stop_reason else None
            answer = answer.text
        reader = AnswerReader(self.parts)
        reader.feed(answer)
        return reader.end(ended)

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema for structured output: an object with the list of parts.

        It accepts only valid parts, and fewer of them if that is more reliable: known types, inline text. Reading the
        answer checks what JSON Schema cannot express, such as required parts.
        """
        kinds = [kind for part in self.parts for kind in _part_schemas(part)]
        lines = ["The parts of the answer, in order. A part without a name is said to the user."]
        lines += [f"{'Required' if part.required else 'Allowed'}: {part}." for part in self.parts]
        parts: Schema = {"type": "array", "description": " ".join(lines)}
        if kinds:
            parts["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        # One part for each name, and one for all text: small models do not end a list by themselves.
        names = {name for part in self.parts if part.name is not None for name in expand_braces(part.name)}
        unnamed = [part for part in self.parts if part.name is None]
        if not any("*" in name for name in names) and not any(map(_binary_types, unnamed)):
            parts["maxItems"] = len(names) + bool(unnamed)
        if any(part.required for part in self.parts):
            parts["minItems"] = 1
        return _object_schema({"parts": parts})

    def watch(self) -> Callable[[str], tuple[OutputProblem, ...]]:
        """Return a function that takes an answer piece by piece, and returns the violations that are certain: at the
        beginning of a name that no part may have, at a repeated name, or when the list ends without a required part."""
        reader = AnswerReader(self.parts)

        def feed(text: str) -> tuple[OutputProblem, ...]:
            reader.feed(text)
            return tuple(OutputProblem(each.steps, each.reason) for each in reader.violations)

        return feed

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Validate ``Annotated[MessageBody, schema]``, with every violation as an error of its own."""
        if source is not MessageBody:
            raise TypeError("the schema of a message body annotates MessageBody: Annotated[MessageBody, schema]")
        return no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return self.json_schema()

    def _validate(self, value: Any) -> MessageBody:
        if isinstance(value, MessageBody):
            return self.enforce(value)
        try:
            return self.read(to_json(value).decode())
        except MessageBodyError as error:
            details = []
            for each in error.violations:
                kind = PydanticCustomError("body", "{reason}", {"reason": each.reason})
                details.append(InitErrorDetails(type=kind, loc=each.steps, input=None))
            raise ValidationError.from_exception_data(MessageBody.__name__, details) from None


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
    parts: list[MessageBodyPart],
    avoided: Sequence[MessageBodySchemaPart],
) -> Compatibility:
    """Build the negative result, if possible with a body that holds these parts and none of the avoided ones."""
    for needed in producer.parts:
        if needed.required and not any(map(needed.matches, parts)):
            named_parts = [MessageBodySchemaPart(name=part.name, content_type="**") for part in parts if part.name]
            example = _find_uncovered(needed, [*avoided, *named_parts])
            if example is None:
                return Compatibility(False, reason)
            parts.append(example)
    try:
        body = MessageBody(tuple(parts))
    except FormatError:
        return Compatibility(False, reason)
    proves = not producer.check(body) and consumer.check(body)
    return Compatibility(False, reason, body if proves else None)


class _TooManyStepsError(Exception):
    pass


def _find_uncovered(part: MessageBodySchemaPart, covers: Sequence[MessageBodySchemaPart]) -> MessageBodyPart | None:
    """Return a part that ``part`` accepts and none of the ``covers`` does, or None."""
    budget = _StepBudget()
    names = part.names
    if names is None:
        kind = _find_uncovered_type(part.types, [each.types for each in covers if each.names is None], budget)
        return None if kind is None else MessageBodyPart(content_type=kind, content="")
    named = [(each.names, each.types) for each in covers if each.names is not None]
    tried: list[frozenset[int]] = []
    for name, covering in _walk([names, *(glob for glob, _ in named)], _NAMES, budget):
        matched = frozenset(index - 1 for index in covering)
        if any(before <= matched for before in tried):
            continue  # more covers never leave more types
        tried.append(matched)
        kind = _find_uncovered_type(part.types, [named[index][1] for index in sorted(matched)], budget)
        if kind is not None:
            return MessageBodyPart(name=name, content_type=kind, content="")
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
        if place in texts.whole and globs[0].accepts(states[0]):
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
