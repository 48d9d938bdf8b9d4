"""MessageBodySchema: the parts that a message body may have, and those that it must have.

A body is valid if every part matches at least one part of the schema, and every required part of the schema
is matched by at least one part. The order is free, and one part may match several parts of the schema.
Source: docs/reference/message-body.md#schemas.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    """The schema of a body. As the ``output_schema`` of a session's turn, it is the schema of the answer."""

    parts: tuple[MessageBodySchemaPart, ...] = ()

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

    def _unexpected_parts(self, body: MessageBody) -> Iterator[BodyViolation]:
        for index, part in enumerate(body.parts):
            if not self.accepts(part):
                yield BodyViolation(
                    f"$[{index}]", f"the schema has no place for {describe_part(part.name, part.content_type)}"
                )
