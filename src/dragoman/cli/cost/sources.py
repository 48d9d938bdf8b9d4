"""The sources of `dragoman cost`: sessions and messages in files, stores, exported stores, and files of usages.

Every source has a method `lines`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.message import Message, read_message
from dragoman.pricing import PriceTable, price_table, reprice
from dragoman.pricing.analytics.cost_lines import CostLine, cost_line, sum_by_key
from dragoman.pricing.analytics.usage_columns import SUFFIXES
from dragoman.pricing.analytics.usages import RecordedReplies, Replies, Usages
from dragoman.session import snapshot
from dragoman.sqlite_files import is_sqlite_file

if TYPE_CHECKING:
    from dragoman.store import Store


@dataclass(frozen=True, slots=True)
class Repricing:
    """The prices to use: those of the table, at one time or as another model, as in `reprice`. None: as recorded."""

    table: PriceTable | None = None
    at: datetime | None = None
    as_model: str | None = None

    @property
    def is_requested(self) -> bool:
        return self != Repricing()


@dataclass(frozen=True, slots=True)
class Span:
    """The time from ``since`` to ``until``, which is excluded; None is open."""

    since: datetime | None = None
    until: datetime | None = None

    def contains(self, at: datetime) -> bool:
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


ALWAYS = Span()


Spenders = Mapping[str, Mapping[str, object]]
"""The key and the tag of sessions, by their id."""
_NO_SPENDERS: Spenders = MappingProxyType({})
_PAGE = 1000
SESSION_GROUPS = ("key", "tag")
"""The groups that the metadata of stored sessions names: the gateway's key, and the tag that its client chose."""


PlaceT = TypeVar("PlaceT")


@dataclass(frozen=True)
class Source(ABC, Generic[PlaceT]):
    """Where replies are kept, and the time of those that count."""

    place: PlaceT
    span: Span = ALWAYS

    @abstractmethod
    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        """Return the cost of the replies, by the groups of `dragoman.pricing.analytics.usage_columns.GROUPS`."""

    def describe_prices(self, prices: Repricing) -> str:
        """Return the origin of the figures, as text."""
        return f"price table {(prices.table or price_table()).version}" if prices.is_requested else "as recorded"


def open_sources(names: Sequence[str], span: Span = ALWAYS, *, attach: bool = False) -> list[Source[Any]]:
    """Return one source for each session, file of messages, store or exported folder, and one for all files of usages
    of a kind. Only replies of that span count.

    A store is a URL or an SQLite file; with ``attach`` DuckDB reads it. Raises ConfigurationError if a file contains no
    replies, and OSError if it cannot be read.
    """
    store: type[AttachedStore | StoreReplies] = AttachedStore if attach else StoreReplies
    found: list[Source[Any]] = []
    usages: dict[str, list[Path]] = {}
    for name in names:
        if "://" in name:
            found.append(store(name, span))
            continue
        path = Path(name)
        if path.is_dir():
            found.append(ExportedReplies(path, span))
            continue
        if not path.is_file():
            raise ConfigurationError(f"there is no file {name!r}")
        suffix = path.suffix.lower()
        if is_sqlite_file(path):
            found.append(store(f"sqlite:///{path}", span))
        elif suffix == ".json" or (suffix not in (".parquet", ".csv") and _has_messages(path)):
            found.append(MessageFile(path, span))
        elif suffix in SUFFIXES:
            usages.setdefault(suffix, []).append(path)
        else:
            raise ConfigurationError(
                f"{name}: costs are read from .json, {', '.join(SUFFIXES)}, stores, and folders exported from them"
            )
    return [*found, *(UsageFiles(paths, span) for paths in usages.values())]


class UsageFiles(Source[Sequence[Path]]):
    """Files with a row for each reply. They contain no prices, so today's table is the default."""

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        _refuse_session_groups(by)
        usages = Usages(self.place, since=self.span.since, until=self.span.until)
        return usages.costs(by, prices.table or price_table(), at=prices.at, as_model=prices.as_model)

    def describe_prices(self, prices: Repricing) -> str:
        return f"price table {(prices.table or price_table()).version}"


class MessageFile(Source[Path]):
    """A session that `Session.dump` wrote, including broken replies, or one message per line."""

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        _refuse_session_groups(by)
        in_span = (message for message in self._messages() if self.span.contains(message.created_at))
        return sum_by_key(_iter_lines(in_span, by, prices))

    def _messages(self) -> Iterator[Message]:
        if self.place.suffix.lower() == ".json":
            session = snapshot.read(self.place.read_bytes(), new_message_id)
            for message in (*session.messages, *session.attempts):
                named = {"session_id": message.session_id or session.session_id}
                yield message.model_copy(update=named)
            return
        with self.place.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                where = f"{self.place}, line {number} is not a message"
                try:
                    if line.strip():
                        yield read_message(line)
                except ValidationError as error:
                    fault = error.errors(include_input=False, include_url=False)[0]  # not the conversation
                    place = ".".join(map(str, fault["loc"]))
                    raise ConfigurationError(f"{where}: {place}: {fault['msg']}") from None
                except ValueError as error:
                    raise ConfigurationError(f"{where}: {error!s:.200}") from None


class StoreReplies(Source[str]):
    """All billed replies and attempts of a store, given its URL."""

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        from dragoman.store import Store  # its extra is needed only for stores

        with Store(self.place, read_only=True) as store:
            replies = store.billed_replies(since=self.span.since, until=self.span.until)
            return sum_by_key(_iter_lines(replies, by, prices, self._find_spenders(store, by)))

    def _find_spenders(self, store: "Store", by: Sequence[str]) -> Spenders:
        """Return the key and the tag of each session that was used in this time and has one."""
        found: dict[str, dict[str, object]] = {}
        cursor: str | None = None
        more = any(name in by for name in SESSION_GROUPS)
        while more:
            page = store.list(since=self.span.since, limit=_PAGE, cursor=cursor)
            for record in page.sessions:
                if known := {name: record.metadata[name] for name in SESSION_GROUPS if name in record.metadata}:
                    found[record.id] = known
            cursor, more = page.cursor, page.cursor is not None
        return found


class AttachedStore(Source[str]):
    """A store that DuckDB reads in place, given its URL."""

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        from dragoman.store.reports.attached import AttachedReplies

        return _report_lines(AttachedReplies(self.place, since=self.span.since, until=self.span.until), by, prices)


class ExportedReplies(Source[Path]):
    """The folder that `dragoman store export` wrote."""

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        return _report_lines(Replies(self.place, since=self.span.since, until=self.span.until), by, prices)


def _report_lines(replies: RecordedReplies, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    _refuse_session_groups(by)
    if prices.is_requested:
        return replies.reprice(by, prices.table, at=prices.at, as_model=prices.as_model)
    return replies.costs(by)


def _refuse_session_groups(by: Sequence[str]) -> None:
    """Raise ConfigurationError for groups that only the sessions of a store know."""
    for name in by:
        if name in SESSION_GROUPS:
            raise ConfigurationError(f"only a store knows what to group by {name}: name it, and leave --attach out")


def _iter_lines(
    messages: Iterable[Message], by: Sequence[str], prices: Repricing, spenders: Spenders = _NO_SPENDERS
) -> Iterator[CostLine]:
    replies: Iterator[Message] = (
        message for message in messages if message.usage is not None or message.metadata.provider is not None
    )
    if prices.is_requested:
        replies = reprice(replies, prices.table, at=prices.at, as_model=prices.as_model)
    for message in replies:
        metadata = message.metadata
        values: dict[str, object] = {
            "model": metadata.model,
            "provider": metadata.provider or (metadata.model or "").partition(":")[0] or None,
            "day": message.created_at.date().isoformat(),
            "user": metadata.user_id,
            "team": metadata.team_id,
            "session": message.session_id or None,
            **spenders.get(message.session_id or "", {}),
        }
        key = (values.get(name) for name in by)
        yield cost_line(tuple(None if value is None else str(value) for value in key), message.usage)


def _has_messages(path: Path) -> bool:
    """Whether the first line is a message; otherwise it is a usage."""
    with path.open("rb") as lines:
        first = next((line for line in lines if line.strip()), b"{}")
    try:
        return "role" in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        return False
