"""MessageBody: a message between agents as one flat list of parts. Source: docs/reference/message-body.md#parts.

One part of a message body: a name, a type, and content inline or at a URL; and one part that a body may have.

Source: docs/reference/message-body.md#parts and .../message-body.md#schemas.
"""

import asyncio
import base64
import binascii
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

from pydantic import ConfigDict, StrictBool, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.glob import Glob, glob
from dragoman.canonical.guard import Text
from dragoman.formats.document import copy_json_at, kind_of, parse, validating
from dragoman.formats.errors import BodyViolation, FormatError, NotFetchedError

PartT = TypeVar("PartT")
ModelT = TypeVar("ModelT", bound=FrozenModel)

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


def read_parts(items: Iterable[Any], kind: type[ModelT], what: str, at: str = "$") -> tuple[ModelT, ...]:
    """Read the parts of a list at that path from JSON. Raises FormatError."""
    parts = []
    for index, item in enumerate(items):
        path = f"{at}[{index}]"
        native = copy_json_at(item, path)
        if not isinstance(native, dict):
            raise FormatError(f"{what} must be an object, not {kind_of(native)}", path=path)
        with validating(native, path):
            parts.append(kind.model_validate(native))
    return tuple(parts)


class Part(FrozenModel):
    """The fields of parts in every dialect. ``content_encoding`` is the encoding of ``content``; None is plain text."""

    name: Text | None = None
    content_type: Text
    """The IANA type, with its parameters, such as ``text/plain; charset=utf-8``."""
    content: Text | None = None
    content_url: Text | None = None
    content_encoding: Literal["plain", "base64"] | None = "plain"

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
        fits = part.name is None if names is None else part.name is not None and names.matches(part.name)
        return fits and self.types.matches(part.media_type)

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


FORMAT = "message_body"


class FetchedContent(Protocol):
    @property
    def data(self) -> bytes: ...


Fetch = Callable[[str], bytes | FetchedContent]
"""Returns the content at a URL. `dragoman.transport.fetch.Fetcher` is one, for public addresses only."""

AsyncFetch = Callable[[str], Awaitable[bytes | FetchedContent]]


@dataclass(frozen=True, slots=True)
class MessageBody:
    """Parts in order, with unique names. Raises FormatError with every repeated name.

    Nothing is fetched except by the ``fetch`` argument of a call. Without it, reading content at a URL raises
    NotFetchedError.
    """

    parts: tuple[MessageBodyPart, ...] = ()
    """The parts in their order."""
    _index_by_name: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", as_parts(self.parts, MessageBodyPart))
        places: dict[str, int] = {}
        repeated: list[tuple[int, int]] = []
        for index, part in enumerate(self.parts):
            if part.name is not None and (first := places.setdefault(part.name, index)) != index:
                repeated.append((index, first))
        if repeated:
            repeats = ", ".join(f"$[{index}] has the name of $[{first}]" for index, first in repeated[:5])
            raise FormatError(f"names must be unique: {repeats}", path=f"$[{repeated[0][0]}].name")
        object.__setattr__(self, "_index_by_name", places)

    @classmethod
    def from_json(cls, document: Any) -> "MessageBody":
        """Read a body from JSON text or from Python lists and dicts: a list of parts, or an object with one as
        ``parts``.

        Raises FormatError, with a path.
        """
        value = parse(document, format_name=FORMAT)
        at = "$"
        if isinstance(value, dict):
            copied = copy_json_at(value)
            if "parts" not in copied:
                raise FormatError("a message body must be a list of parts, or an object with a list as parts")
            if unknown := copied.keys() - {"parts"}:
                raise FormatError("a message body has no other field than its parts", path=f"$.{min(unknown)}")
            value, at = copied["parts"], "$.parts"
        if not isinstance(value, (list, tuple)):
            raise FormatError(f"the parts of a message body must be a list, not {kind_of(value)}", path=at)
        parts = read_parts(value, MessageBodyPart, "a part", at)
        try:
            return cls(parts)
        except FormatError as error:
            raise FormatError(error.reason, path=at + error.path.removeprefix("$")) from None

    def as_json(self) -> list[dict[str, Any]]:
        """Return the list of parts, each with the fields that were set."""
        return [part.model_dump(by_alias=True, exclude_unset=True) for part in self.parts]

    def get(self, name: str) -> MessageBodyPart | None:
        """Return the part with this name, or None."""
        place = self._index_by_name.get(name)
        return None if place is None else self.parts[place]

    def list(self, pattern: str) -> tuple[MessageBodyPart, ...]:
        """Return the parts whose names match a glob, in order, such as ``/sources/*``, ``/files/**`` or ``/{a,b}``.

        Raises FormatError if its braces expand to over 1,000 patterns.
        """
        try:
            matches = glob(pattern, braces=True).matches
        except ValueError as error:
            raise FormatError(str(error)) from None
        return tuple(part for part in self.parts if part.name is not None and matches(part.name))

    def text(self, *, fetch: Fetch | None = None) -> str:
        """Return the text of the parts without a name, joined without a separator."""
        return "".join(self.read_text(part, fetch=fetch) for part in self._text_parts())

    async def text_async(self, *, fetch: Fetch | AsyncFetch | None = None) -> str:
        """As `text`."""
        return "".join([await self.read_text_async(part, fetch=fetch) for part in self._text_parts()])

    def read_text(self, part: str | MessageBodyPart, *, fetch: Fetch | None = None) -> str:
        """Return the content of a part, given by itself or by name, as text in the charset of its type.

        Raises FormatError if there is no such part, or its bytes are not valid in the charset.
        """
        found = self._part(part)
        plain = found.plain_text()
        return self._decode(found, self.read_bytes(found, fetch=fetch)) if plain is None else plain

    async def read_text_async(self, part: str | MessageBodyPart, *, fetch: Fetch | AsyncFetch | None = None) -> str:
        """As `read_text`. ``fetch`` may be a coroutine function; a plain function runs in a thread."""
        found = self._part(part)
        plain = found.plain_text()
        return self._decode(found, await self.read_bytes_async(found, fetch=fetch)) if plain is None else plain

    def read_bytes(self, part: str | MessageBodyPart, *, fetch: Fetch | None = None) -> bytes:
        """Return the content of a part, given by itself or by name; plain text is encoded in the
        charset of its type.
        """
        found = self._part(part)
        if (inlined := self._inline(found)) is not None:
            return inlined
        return _to_bytes(self._require_fetch(found, fetch)(found.content_url or ""))

    async def read_bytes_async(self, part: str | MessageBodyPart, *, fetch: Fetch | AsyncFetch | None = None) -> bytes:
        """As `read_bytes`. ``fetch`` may be a coroutine function; a plain function runs in a thread."""
        found = self._part(part)
        if (inlined := self._inline(found)) is not None:
            return inlined
        fetch_url, url = self._require_fetch(found, fetch), found.content_url or ""
        fetched = fetch_url(url) if inspect.iscoroutinefunction(fetch_url) else await asyncio.to_thread(fetch_url, url)
        return _to_bytes(await fetched if inspect.isawaitable(fetched) else fetched)

    def _text_parts(self) -> Iterator[MessageBodyPart]:
        return (part for part in self.parts if part.name is None and part.is_text)

    def _part(self, part: str | MessageBodyPart) -> MessageBodyPart:
        if not isinstance(part, str):
            return part
        if (found := self.get(part)) is None:
            raise FormatError(f"no part has the name {part[:200]!r}")
        return found

    def _path(self, part: MessageBodyPart) -> str:
        return next((f"$[{index}]" for index, each in enumerate(self.parts) if each is part), "$")

    def _inline(self, part: MessageBodyPart) -> bytes | None:
        try:
            return part.inline_bytes()
        except ValueError as error:
            raise FormatError(f"the content cannot be decoded as text: {error}", path=self._path(part)) from None

    def _decode(self, part: MessageBodyPart, data: bytes) -> str:
        try:
            return part.decode(data)
        except ValueError as error:
            raise FormatError(f"the content cannot be decoded as text: {error}", path=self._path(part)) from None

    def _require_fetch(self, part: MessageBodyPart, fetch: Callable[[str], Any] | None) -> Callable[[str], Any]:
        if fetch is None:
            raise NotFetchedError(part.content_url or "", path=self._path(part))
        return fetch


def _to_bytes(fetched: bytes | FetchedContent) -> bytes:
    return fetched if isinstance(fetched, bytes) else fetched.data
