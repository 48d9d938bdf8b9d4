"""Requests and replies in bytes: adapters encode and decode them, transports send them."""

from collections.abc import AsyncIterable, ItemsView, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar, overload

from dragoman.adapter.losses import Loss

DefaultT = TypeVar("DefaultT")

DEFAULT_FRAME_CAP = 16 * 1024 * 1024
"""The most bytes of one event of a stream."""
DEFAULT_BODY_CAP = 64 * 1024 * 1024
"""The most bytes of a whole reply."""

WireChunk = bytes
"""Bytes exactly as they arrived, cut anywhere."""


class Headers(Mapping[str, str]):
    """Read-only headers with case-insensitive names."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | None = None) -> None:
        self._items: dict[str, str]
        if type(items) is Headers:  # isinstance asks the abstract class, which takes longer than all else here
            self._items = items._items
        else:
            self._items = {name.lower(): value for name, value in (items or {}).items()}

    @classmethod
    def from_lower(cls, items: dict[str, str]) -> Self:
        """Return the headers of a dictionary whose names are in lower case. It must not change afterwards."""
        headers = cls.__new__(cls)
        headers._items = items
        return headers

    def __getitem__(self, name: str) -> str:
        return self._items[name.lower()]

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, /, default: str | DefaultT) -> str | DefaultT: ...

    def get(self, name: str, /, default: object = None) -> object:
        """Return a header's value, or the default."""
        return self._items.get(name.lower(), default)  # that of Mapping takes three calls

    def items(self) -> ItemsView[str, str]:
        """Return all headers, their names in lower case."""
        return self._items.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({sorted(self._items)})"


@dataclass(frozen=True, slots=True)
class Upload:
    """A body in pieces, which are sent as they come and can be sent once. ``size`` is its bytes, if that is known."""

    pieces: AsyncIterable[bytes] = field(repr=False)
    """The bytes of the body, in order. They can be read once."""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request, without host and key: those belong to the transport.

    ``path`` starts with a slash and is relative to the provider's base URL. ``losses`` is what the history lost in the
    encoding. ``terms`` are those of the `RequestContext` that the reply is read with; the transport adds to them.
    ``upload`` is sent in place of ``body``, by async transports alone. ``any_type``: the reply may be a page for a
    browser; otherwise such a reply is an error, because no API answers with one. The repr shows neither body nor
    headers: they hold the conversation, and a key at times.
    """

    method: str
    """The HTTP method."""
    path: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The headers that the wire needs, without the key."""
    stream: bool = False
    """Whether a streamed reply is read."""
    losses: tuple[Loss, ...] = ()
    terms: dict[str, str] | None = field(default=None, compare=False, repr=False)
    upload: Upload | None = field(default=None, repr=False)
    any_type: bool = False


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt of a request: its HTTP status or error class, and the seconds waited after it, if any."""

    number: int
    """Which attempt it was, from 1."""
    status: int | None
    """The HTTP status; None if no response arrived."""
    error_class: str | None
    """The kind of the error, such as ``rate_limit``; None for a success."""
    waited: float = 0.0
    """The seconds that the client waited after the attempt, before the next one."""


@dataclass(frozen=True, slots=True)
class WireResponse:
    """A whole reply. The names of its ``headers`` are case-insensitive. ``attempts``: one record for each try, if
    known.

    ``losses`` is what a message lost when `Adapter.to_wire_response` wrote it; empty for a reply of a provider.
    """

    status: int
    """The HTTP status."""
    body: bytes = field(repr=False)
    """The bytes as they arrived."""
    headers: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[AttemptRecord, ...] = field(default=(), compare=False)
    losses: tuple[Loss, ...] = ()

    def __post_init__(self) -> None:
        if type(self.headers) is not Headers:
            object.__setattr__(self, "headers", Headers(self.headers))
