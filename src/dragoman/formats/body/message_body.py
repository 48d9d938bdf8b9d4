"""MessageBody: a message between agents as one flat list of parts. Source: docs/reference/message-body.md#parts."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from dragoman.canonical.glob import glob
from dragoman.formats.body.parts import MessageBodyPart, as_parts
from dragoman.formats.document import copy_json_at, kind_of, parse, validating
from dragoman.formats.errors import FormatError, NotFetchedError

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
        parts = []
        for index, item in enumerate(value):
            path = f"{at}[{index}]"
            part_json = copy_json_at(item, path)
            if not isinstance(part_json, dict):
                raise FormatError(f"a part must be an object, not {kind_of(part_json)}", path=path)
            with validating(part_json, path):
                parts.append(MessageBodyPart.model_validate(part_json))
        try:
            return cls(tuple(parts))
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
