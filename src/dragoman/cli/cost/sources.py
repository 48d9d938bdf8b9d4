"""The sources of `dragoman cost`: sessions and messages in files, stores, exported stores, and files of usages.

Each kind has a function that reads it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

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


_PAGE = 1000
SESSION_GROUPS = ("key", "tag")
"""The groups that the metadata of stored sessions names: the gateway's key, and the tag that its client chose."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where replies are kept, and the function that reads the costs of those of a span from there."""

    read: "Reader"
    place: Any

    def lines(self, by: Sequence[str], prices: Repricing, span: Span = ALWAYS) -> Iterable[CostLine]:
        """Return the cost of the replies, by the groups of `dragoman.pricing.analytics.usage_columns.GROUPS`."""
        if self.read is not read_store and (unknown := [name for name in by if name in SESSION_GROUPS]):
            raise ConfigurationError(
                f"only a store knows what to group by {unknown[0]}: name it, and leave --attach out"
            )
        return self.read(self.place, span, by, prices)

    def describe_prices(self, prices: Repricing) -> str:
        """Return the origin of the figures, as text. Usages have no prices: today's table is their default."""
        if prices.is_requested or self.read is read_usages:
            return f"price table {(prices.table or price_table()).version}"
        return "as recorded"


Reader = Callable[[Any, Span, Sequence[str], Repricing], Iterable[CostLine]]


def open_sources(names: Sequence[str], *, attach: bool = False) -> list[Source]:
    """Return one source for each session, file of messages, store or exported folder, and one for all files of usages
    of a kind.

    A store is a URL or an SQLite file; with ``attach`` DuckDB reads it. Raises ConfigurationError if a file contains no
    replies, and OSError if it cannot be read.
    """
    store = read_attached_store if attach else read_store
    found: list[Source] = []
    usages: dict[str, list[Path]] = {}
    for name in names:
        if "://" in name:
            found.append(Source(store, name))
            continue
        path = Path(name)
        if path.is_dir():
            found.append(Source(read_export, path))
            continue
        if not path.is_file():
            raise ConfigurationError(f"there is no file {name!r}")
        suffix = path.suffix.lower()
        if is_sqlite_file(path):
            found.append(Source(store, f"sqlite:///{path}"))
        elif suffix == ".json" or (suffix not in (".parquet", ".csv") and _has_messages(path)):
            found.append(Source(read_messages, path))
        elif suffix in SUFFIXES:
            usages.setdefault(suffix, []).append(path)
        else:
            raise ConfigurationError(
                f"{name}: costs are read from .json, {', '.join(SUFFIXES)}, stores, and folders exported from them"
            )
    return [*found, *(Source(read_usages, paths) for paths in usages.values())]


def read_usages(files: Sequence[Path], span: Span, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    """Read files with a row for each reply."""
    usages = Usages(files, since=span.since, until=span.until)
    return usages.costs(by, prices.table or price_table(), at=prices.at, as_model=prices.as_model)


def read_messages(file: Path, span: Span, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    """Read a session that `Session.dump` wrote, including broken replies, or one message per line."""
    in_span = (message for message in _iter_messages(file) if span.contains(message.created_at))
    return sum_by_key(_iter_lines(in_span, by, prices))


def _iter_messages(file: Path) -> Iterator[Message]:
    if file.suffix.lower() == ".json":
        session = snapshot.read(file.read_bytes(), new_message_id)
        for message in (*session.messages, *session.attempts):
            yield message.model_copy(update={"session_id": message.session_id or session.session_id})
        return
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            where = f"{file}, line {number} is not a message"
            try:
                if line.strip():
                    yield read_message(line)
            except ValidationError as error:
                fault = error.errors(include_input=False, include_url=False)[0]  # not the conversation
                place = ".".join(map(str, fault["loc"]))
                raise ConfigurationError(f"{where}: {place}: {fault['msg']}") from None
            except ValueError as error:
                raise ConfigurationError(f"{where}: {error!s:.200}") from None


def read_store(url: str, span: Span, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    """Read all billed replies and attempts of a store."""
    from dragoman.store import Store  # its extra is needed only for stores

    spenders: dict[str, dict[str, object]] = {}
    with Store(url, read_only=True) as store:
        cursor, more = None, any(name in by for name in SESSION_GROUPS)
        while more:
            page = store.list(since=span.since, limit=_PAGE, cursor=cursor)
            for record in page.sessions:
                if known := {name: record.metadata[name] for name in SESSION_GROUPS if name in record.metadata}:
                    spenders[record.id] = known
            cursor, more = page.cursor, page.cursor is not None
        replies = store.billed_replies(since=span.since, until=span.until)
        return sum_by_key(_iter_lines(replies, by, prices, spenders))


def read_attached_store(url: str, span: Span, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    """Let DuckDB read a store in place."""
    from dragoman.store.reports.attached import AttachedReplies

    return _report_lines(AttachedReplies(url, since=span.since, until=span.until), by, prices)


def read_export(folder: Path, span: Span, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    """Read the folder that `dragoman store export` wrote."""
    return _report_lines(Replies(folder, since=span.since, until=span.until), by, prices)


def _report_lines(replies: RecordedReplies, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    if prices.is_requested:
        return replies.reprice(by, prices.table, at=prices.at, as_model=prices.as_model)
    return replies.costs(by)


def _iter_lines(
    messages: Iterable[Message],
    by: Sequence[str],
    prices: Repricing,
    spenders: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> Iterator[CostLine]:
    """``spenders`` are the key and the tag of sessions, by their id."""
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
