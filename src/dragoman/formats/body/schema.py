"""MessageBodySchema: the parts that a message body may have, and those that it must have.

A body is valid if every part matches at least one part of the schema, and every required part of the schema
is matched by at least one part. The order is free, and one part may match several parts of the schema.
Source: docs/reference/message-body.md#schemas.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError, to_json
from pydantic_core.core_schema import no_info_plain_validator_function

from dragoman.canonical.events import OutputProblem
from dragoman.canonical.message import Message
from dragoman.formats.body.answer_reader import AnswerReader
from dragoman.formats.body.answer_schema import answer_schema
from dragoman.formats.body.message_body import MessageBody
from dragoman.formats.body.parts import MessageBodyPart, as_parts, describe_part
from dragoman.formats.body.schema_part import MessageBodySchemaPart, accepts_part, missing_parts
from dragoman.formats.document import copy_json_at, kind_of, parse, validating
from dragoman.formats.errors import BodyViolation, FormatError, MessageBodyError

FORMAT = "message_body_schema"


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
        parts = []
        for index, item in enumerate(value):
            path = f"$[{index}]"
            part_json = copy_json_at(item, path)
            if not isinstance(part_json, dict):
                raise FormatError(f"a part of a schema must be an object, not {kind_of(part_json)}", path=path)
            with validating(part_json, path):
                parts.append(MessageBodySchemaPart.model_validate(part_json))
        return cls(tuple(parts))

    def as_json(self) -> list[dict[str, Any]]:
        """Return the list of parts, each with the fields that were set."""
        return [part.model_dump(by_alias=True, exclude_unset=True) for part in self.parts]

    def check(self, body: MessageBody) -> tuple[BodyViolation, ...]:
        """Return every violation of a body; an empty tuple if it is valid."""
        return (*self._unexpected_parts(body), *self.missing(body.parts))

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
        return answer_schema(self.parts)

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

    def _unexpected_parts(self, body: MessageBody) -> Iterator[BodyViolation]:
        for index, part in enumerate(body.parts):
            if not self.accepts(part):
                yield BodyViolation(
                    f"$[{index}]", f"the schema has no place for {describe_part(part.name, part.content_type)}"
                )
