"""One part of a message body: a name, a type, and content inline or at a URL; and one part that a body may have.

Source: docs/reference/message-body.md#parts and .../message-body.md#schemas.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self, TypeVar

from pydantic import ConfigDict, StrictBool, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.glob import Glob, glob
from dragoman.canonical.guard import Text
from dragoman.formats.errors import BodyViolation, FormatError

PartT = TypeVar("PartT")

ANY_TYPE = "application/octet-stream"

NAME_RULE = "a name must be an absolute path of letters, digits, '.', '_' and '-', such as /sources/1"

_NAME = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*")
_PARAMETERS = re.compile(r"(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_CHARSET = re.compile(r";[ \t]*charset[ \t]*=[ \t]*\"?([^\s\";]+)", re.IGNORECASE)
_CHARSETS = {
    "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "ascii", "ascii": "ascii", "iso-8859-1": "latin-1",
    "latin1": "latin-1", "iso-8859-15": "iso8859-15", "windows-1252": "cp1252", "utf-16": "utf-16",
    "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
}  # fmt: skip
"""Python's names of the supported charsets. A document must not select any of the other codecs."""
_MAX_SHOWN = 100
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")
ANY = "*/*"


def name_fault(name: str) -> str | None:
    """Return what is wrong with a name, or None."""
    if not _NAME.fullmatch(name):
        return NAME_RULE
    if {".", ".."} & set(name.split("/")):
        return "no segment of a name can be . or .."
    return None


def can_start_name(prefix: str) -> bool:
    """Return True if a valid name can start with this prefix."""
    # One more character, or a whole segment, completes every prefix of a valid name.
    return name_fault(prefix + ("x" if prefix.endswith(("/", ".")) else "" if prefix else "/x")) is None


def type_fault(content_type: str) -> str | None:
    """Return what is wrong with a content type, or None. Parameters are ignored."""
    found = _TYPE.match(content_type)
    if found is None or not _PARAMETERS.fullmatch(content_type, found.end()):
        return "a content type must be a MIME type, such as text/plain"
    return None


def normalize_type(content_type: str) -> str:
    """Return a content type for comparison: without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def describe_part(name: str | None, content_type: str) -> str:
    """Describe a part for an error message."""
    what = "a part without a name" if name is None else name[:_MAX_SHOWN]
    return f"{what} of the type {content_type[:_MAX_SHOWN]}"


def is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None


def is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def as_parts(parts: Iterable[PartT], kind: type[PartT]) -> tuple[PartT, ...]:
    """Return a tuple of parts. Raises FormatError for a single part, and for an item of another type."""
    if isinstance(parts, (kind, Mapping, str, bytes)):
        raise FormatError(f"parts must be a list of {kind.__name__}, not a {type(parts).__name__}")
    found = tuple(parts)
    for index, part in enumerate(found):
        if not isinstance(part, kind):
            reason = f"a part must be a {kind.__name__}, not a {type(part).__name__}: from_json reads JSON"
            raise FormatError(reason, path=f"$[{index}]")
    return found


class Part(FrozenModel):
    """The fields of parts in every dialect. ``content_encoding`` is the encoding of ``content``; None is plain text."""

    name: Text | None = None
    content_type: Text
    """The IANA type, with its parameters, such as ``text/plain; charset=utf-8``."""
    content: Text | None = None
    content_url: Text | None = None
    content_encoding: Literal["plain", "base64"] | None = "plain"

    @property
    def media_type(self) -> str:
        """The content type without parameters, in lower case."""
        return normalize_type(self.content_type)

    @property
    def charset(self) -> str:
        """The charset of the content type; utf-8 by default."""
        found = _CHARSET.search(self.content_type)
        return found[1].lower() if found else "utf-8"

    @property
    def is_base64(self) -> bool:
        """Whether ``content`` is base64 text and not the content itself."""
        return self.content_encoding == "base64"

    @property
    def is_text(self) -> bool:
        """Whether the type is ``text/*``, whatever its encoding."""
        return self.media_type.startswith("text/")

    def plain_text(self) -> str | None:
        """Return the content if it is plain text, otherwise None."""
        return None if self.is_base64 else self.content

    def inline_bytes(self) -> bytes | None:
        """Return the content as bytes, or None if it is at a URL. Raises ValueError if its charset cannot encode it."""
        if self.content is None:
            return None
        return base64.b64decode(self.content) if self.is_base64 else self.content.encode(self._codec())

    def decode(self, data: bytes) -> str:
        """Decode bytes in this part's charset. Raises ValueError if they are invalid."""
        return data.decode(self._codec())

    def _codec(self) -> str:
        if self.charset not in _CHARSETS:
            raise ValueError(f"the charset {self.charset[:40]!r} is not supported")
        return _CHARSETS[self.charset]


class MessageBodyPart(Part):
    """A part with either ``content`` or ``content_url``. The JSON fields are contentType, contentUrl, contentEncoding.

    A ``name`` is an absolute POSIX path and makes the part an attachment; parts without a name are the message itself.
    Raises pydantic.ValidationError with every fault.
    """

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str | None) -> str | None:
        if name is not None and (fault := name_fault(name)) is not None:
            raise PydanticCustomError("name", "{fault}", {"fault": fault})
        return name

    @field_validator("content_type")
    @classmethod
    def _check_type(cls, content_type: str) -> str:
        if (fault := type_fault(content_type)) is not None:
            raise PydanticCustomError("content_type", "{fault}", {"fault": fault})
        return content_type

    @field_validator("content_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not is_url(url):
            raise PydanticCustomError(
                "content_url", "a content URL must be absolute, such as https://example.org/a.png"
            )
        return url

    @model_validator(mode="after")
    def _check_one_content(self) -> Self:
        if (self.content is None) == (self.content_url is None):
            raise PydanticCustomError("one_content", "a part must have either content or a contentUrl")
        if self.is_base64:
            if self.content is None:
                raise PydanticCustomError("encoding", "only content can have an encoding, not a contentUrl")
            if not is_base64(self.content):
                raise PydanticCustomError("base64", "the content is not valid base64")
        return self


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
