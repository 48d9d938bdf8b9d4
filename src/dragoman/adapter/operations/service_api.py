"""What an adapter knows about a provider's services besides conversations: token counts, files, models.

Operations are those of `dragoman.adapter.operations.operation`: they do no I/O.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, TypeVar

from dragoman.adapter import wirejson
from dragoman.adapter.errors import ConfigurationError, MalformedReplyError
from dragoman.adapter.operations.operation import Operation, get_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import AudioBlock, DocumentBlock, ImageBlock, MediaBlock, MediaSource, VideoBlock

ItemT = TypeVar("ItemT")

MAX_PAGES = 1_000
"""The most pages of one list: a server may name a next page forever."""


class FileContent(NamedTuple):
    """A file to upload."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFile:
    """A file that a provider stores. Sizes are bytes, times are in UTC; None is unknown."""

    provider: str
    """The name of the provider that stores the file."""
    id: str
    """The provider's id. No other provider can read it."""
    name: str = ""
    """The file name, as it was uploaded."""
    media_type: str | None = None
    """An IANA type such as ``application/pdf``."""
    size: int | None = None
    """The size in bytes."""
    created_at: datetime | None = None
    """When the file was uploaded."""
    expires_at: datetime | None = None
    """When the provider deletes the file."""
    reference: str = ""
    """The name of the file inside a conversation, if it is not the id."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The provider's own object."""

    @property
    def block(self) -> MediaBlock:
        """The file as content of a message. Only its provider can read it."""
        source = MediaSource(kind="file_id", data=self.reference or self.id, provider=self.provider)
        kind = _BLOCKS.get((self.media_type or "").partition("/")[0], DocumentBlock)
        return kind(source=source, media_type=self.media_type)


_BLOCKS: Mapping[str, type[ImageBlock | AudioBlock | VideoBlock]] = {
    "image": ImageBlock,
    "audio": AudioBlock,
    "video": VideoBlock,
}
"""The kinds of content by the first part of their media types; any other file is a document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderModel:
    """A model that a provider lists. ``id`` is ``provider:name``; None is unknown."""

    id: str
    display_name: str = ""
    """The provider's name for people; empty if it has none."""
    created_at: datetime | None = None
    """When the provider published the model."""
    max_input_tokens: int | None = None
    """The most tokens of a prompt."""
    max_output_tokens: int | None = None
    """The most tokens of a reply."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The provider's own object."""


class ServiceApi:
    """One provider's services, for one model. What a provider does not offer raises ConfigurationError."""

    offers: ClassVar[frozenset[str]] = frozenset()
    """The services that the provider has: ``count_tokens``, ``files``, ``models``."""

    def __init__(self, provider: str, model: str) -> None:
        self.provider = provider
        self.model = model

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        """Count the input tokens of a request that `Adapter.to_wire` made."""
        raise self._not_offered("count_tokens")

    def upload(self, file: FileContent) -> Operation[ProviderFile]:
        raise self._not_offered("files")

    def files(self) -> Operation[tuple[ProviderFile, ...]]:
        """List all files, page by page."""
        raise self._not_offered("files")

    def delete_file(self, file_id: str) -> Operation[None]:
        raise self._not_offered("files")

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        """List all models, page by page."""
        raise self._not_offered("models")

    def parse(self, response: WireResponse) -> dict[str, Any]:
        return wirejson.loads_object(response.body, what="the provider's answer")

    def require_count(self, native: Mapping[str, Any], name: str) -> int:
        """Return a count. Raises MalformedReplyError."""
        value = native.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise MalformedReplyError(f"the answer has no count {name}", provider=self.provider, model=self.model)
        return value

    def read_pages(
        self,
        path: str,
        headers: Mapping[str, str],
        items: str,
        read: Callable[[Mapping[str, Any]], ItemT],
        next_query: Callable[[Mapping[str, Any]], str],
    ) -> Operation[tuple[ItemT, ...]]:
        """Read a list whose pages hold objects under ``items``. ``next_query`` is the query of the page after one, and
        empty after the last.

        Raises MalformedReplyError for a page that is not such a list, and for pages that never end.
        """
        found: list[ItemT] = []
        query, seen = "", set()
        for _ in range(MAX_PAGES):
            reply = yield get_request(path + query, headers)
            page = self.parse(reply)
            values = page.get(items) or []
            if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
                raise MalformedReplyError(f"the answer has no list {items}", provider=self.provider, model=self.model)
            found += map(read, values)
            query = next_query(page)
            if not query:
                return tuple(found)
            if query in seen:
                break
            seen.add(query)
        raise MalformedReplyError("the pages of the list never end", provider=self.provider, model=self.model)

    def _not_offered(self, service: str) -> ConfigurationError:
        offered = ", ".join(sorted(self.offers)) or "nothing else"
        return ConfigurationError(f"{self.provider} does not offer {service} here; it offers {offered}")


def read_text(native: Mapping[str, Any], name: str) -> str:
    value = native.get(name)
    return value if isinstance(value, str) else ""


def read_integer(native: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number, which some providers write as a text."""
    value = native.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_time(value: Any) -> datetime | None:
    """Return a time in UTC from seconds since 1970 or an ISO 8601 text; None if it is neither."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value)
            return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        return None if isinstance(value, bool) or not isinstance(value, int) else datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
