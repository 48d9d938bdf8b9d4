"""MessageBodySchemaPart: one part that a message body may have. Source: docs/reference/message-body.md#schemas."""

from collections.abc import Sequence

from pydantic import ConfigDict, StrictBool, field_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.glob import Glob, glob
from dragoman.canonical.guard import Text
from dragoman.formats.body.parts import MessageBodyPart, describe_part, normalize_type
from dragoman.formats.errors import BodyViolation

ANY = "*/*"


class MessageBodySchemaPart(FrozenModel):
    """One kind of part that a body may or must have. ``name`` and ``content_type`` are globs: ``*`` matches anything
    without a slash, ``**`` anything, ``{a,b}`` either.

    A schema part without a name matches only parts without a name, and one with a name only named parts.
    Types are compared without parameters and case. Raises pydantic.ValidationError.
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    name: Text | None = None
    content_type: Text = ANY
    required: StrictBool = False
    """Whether a body without such a part is refused."""

    @field_validator("name", "content_type")
    @classmethod
    def _check_glob(cls, pattern: str | None) -> str | None:
        try:
            glob(pattern or "", braces=True)
        except ValueError as error:
            raise PydanticCustomError("glob", "{fault}", {"fault": str(error)}) from None
        return pattern

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        if name is not None and not name.startswith(("/", "*", "{")):
            raise PydanticCustomError("name", "the pattern of a name must be an absolute path, such as /sources/*")
        return name

    @property
    def names(self) -> Glob | None:
        """The glob of the name; None if there must be no name."""
        return None if self.name is None else glob(self.name, braces=True)

    @property
    def types(self) -> Glob:
        """The glob of the type, as `normalize_type` returns it."""
        return glob(normalize_type(self.content_type), braces=True)

    def matches(self, part: MessageBodyPart) -> bool:
        """Return whether the part has a name and a type that this accepts."""
        names = self.names
        if names is None or part.name is None:
            return names is None and part.name is None and self.types.matches(part.media_type)
        return names.matches(part.name) and self.types.matches(part.media_type)

    def __str__(self) -> str:
        return describe_part(self.name, self.content_type)


def accepts_part(allowed: Sequence[MessageBodySchemaPart], part: MessageBodyPart) -> bool:
    """Return True if the part matches one of the allowed ones."""
    return any(each.matches(part) for each in allowed)


def missing_parts(
    allowed: Sequence[MessageBodySchemaPart], parts: Sequence[MessageBodyPart]
) -> tuple[BodyViolation, ...]:
    """Return a violation for each required part that none of the parts match."""
    needed = (each for each in allowed if each.required)
    return tuple(BodyViolation("$", f"it lacks {each}") for each in needed if not any(map(each.matches, parts)))
