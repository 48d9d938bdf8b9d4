"""Where `dragoman cost` finds replies: sessions and messages as they were written, stores and what was exported of
them, and files of usages.

A source is anything with `lines`; what it reads is its own affair.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import new_message_id
from dragoman.canonical.message import Message
from dragoman.canonical.serialization import read_message
from dragoman.pricing import PriceTable, price_table, reprice
from dragoman.pricing.analytics.replies import RecordedReplies, Replies
from dragoman.pricing.analytics.usage_columns import SUFFIXES
from dragoman.pricing.analytics.usages import Usages
from dragoman.pricing.cost_lines import CostLine, cost_line, sum_by_key
from dragoman.session import snapshot

_SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Repricing:
    """At which prices: of the table, at one moment or as another model, as in `reprice`. None: as it was recorded."""

    table: PriceTable | None = None
    at: datetime | None = None
    as_model: str | None = None

    @property
    def is_requested(self) -> bool:
        return self != Repricing()


@dataclass(frozen=True, slots=True)
class Span:
    """From the first moment on, up to the second one; None is open."""

    since: datetime | None = None
    until: datetime | None = None

    def contains(self, at: datetime) -> bool:
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


ALWAYS = Span()


class Source(Protocol):
    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        """What the replies cost, by the groups of `at_scale.GROUPS`."""
        ...

    def describe_prices(self, prices: Repricing) -> str:
        """Where the figures come from, for a person."""
        ...


def open_sources(names: Sequence[str], span: Span = ALWAYS, *, attach: bool = False) -> list[Source]:
    """One for each session, file of messages, store or exported folder, and one for all files of usages of a kind. Only
    replies of that span count.

    A store is named by its URL, or is a file of SQLite; ``attach`` has DuckDB read it. Raises ConfigurationError where
    a file holds nothing of the sort, and OSError where it cannot be read.
    """
    store = AttachedStore if attach else StoreReplies
    found: list[Source] = []
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
        if _is_sqlite(path):
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


@dataclass(frozen=True, slots=True)
class UsageFiles:
    """Files with a row for each reply. They hold no prices: today's table stands in where none is named."""

    paths: Sequence[Path]
    span: Span = ALWAYS

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        usages = Usages(self.paths, since=self.span.since, until=self.span.until)
        return usages.costs(by, prices.table or price_table(), at=prices.at, as_model=prices.as_model)

    def describe_prices(self, prices: Repricing) -> str:
        return f"price table {(prices.table or price_table()).version}"


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A session that `Session.dump` wrote, broken replies included, or one message a line."""

    path: Path
    span: Span = ALWAYS

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        in_span = (message for message in self._messages() if self.span.contains(message.created_at))
        return sum_by_key(_iter_lines(in_span, by, prices))

    def describe_prices(self, prices: Repricing) -> str:
        return _describe_prices(prices)

    def _messages(self) -> Iterator[Message]:
        if self.path.suffix.lower() == ".json":
            session = snapshot.read(self.path.read_bytes(), new_message_id)
            for message in (*session.messages, *session.attempts):
                named = {"session_id": message.session_id or session.session_id}
                yield message.model_copy(update=named)
            return
        with self.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _read_message(line, f"{self.path}, line {number}")


@dataclass(frozen=True, slots=True)
class StoreReplies:
    """Everything that a store was told of: replies, and attempts that were billed."""

    url: str
    span: Span = ALWAYS

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        from dragoman.store import Store  # its extra is asked for where a store is

        check_store_exists(self.url)
        with Store(self.url) as store:
            return sum_by_key(
                _iter_lines(store.billed_replies(since=self.span.since, until=self.span.until), by, prices)
            )

    def describe_prices(self, prices: Repricing) -> str:
        return _describe_prices(prices)


@dataclass(frozen=True, slots=True)
class AttachedStore:
    """The same, read by DuckDB where it is."""

    url: str
    span: Span = ALWAYS

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        from dragoman.store.reports.attached import AttachedReplies

        return _report_lines(AttachedReplies(self.url, since=self.span.since, until=self.span.until), by, prices)

    def describe_prices(self, prices: Repricing) -> str:
        return _describe_prices(prices)


@dataclass(frozen=True, slots=True)
class ExportedReplies:
    """The folder that `dragoman store export` wrote."""

    folder: Path
    span: Span = ALWAYS

    def lines(self, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
        return _report_lines(Replies(self.folder, since=self.span.since, until=self.span.until), by, prices)

    def describe_prices(self, prices: Repricing) -> str:
        return _describe_prices(prices)


def check_store_exists(url: str) -> None:
    """Raises ConfigurationError for a file that is not there: a report does not make what it is to read."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite" and path and not Path(path).is_file():
        raise ConfigurationError(f"there is no store {path!r}")


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _report_lines(replies: RecordedReplies, by: Sequence[str], prices: Repricing) -> Iterable[CostLine]:
    if prices.is_requested:
        return replies.reprice(by, prices.table, at=prices.at, as_model=prices.as_model)
    return replies.costs(by)


def _describe_prices(prices: Repricing) -> str:
    return f"price table {(prices.table or price_table()).version}" if prices.is_requested else "as recorded"


def _iter_lines(messages: Iterable[Message], by: Sequence[str], prices: Repricing) -> Iterator[CostLine]:
    replies: Iterator[Message] = filter(_is_reply, messages)
    if prices.is_requested:
        replies = reprice(replies, prices.table, at=prices.at, as_model=prices.as_model)
    for message in replies:
        yield cost_line(tuple(_group_value(message, name) for name in by), message.usage)


def _is_reply(message: Message) -> bool:
    return message.usage is not None or message.metadata.provider is not None


def _group_value(message: Message, name: str) -> str | None:
    metadata = message.metadata
    match name:
        case "model":
            return metadata.model
        case "provider":
            return metadata.provider or (metadata.model or "").partition(":")[0] or None
        case "day":
            return message.created_at.date().isoformat()
        case "user":
            return metadata.user_id
        case "team":
            return metadata.team_id
        case _:
            return message.session_id or None


def _has_messages(path: Path) -> bool:
    """Whether the first line is a message; otherwise it is a usage."""
    with path.open("rb") as lines:
        first = next((line for line in lines if line.strip()), b"{}")
    try:
        return "role" in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        return False


def _read_message(line: str, where: str) -> Message:
    try:
        return read_message(line)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]  # what was said stays out of the error
        raise ConfigurationError(f"{where} is no message: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    except ValueError as error:
        raise ConfigurationError(f"{where} is no message: {error!s:.200}") from None
