"""Store: sessions that survive the program, in SQLite or PostgreSQL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from sqlalchemy import URL, inspect

from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.pricing.cost_lines import CostLine, cost_line, sum_lines
from dragoman.store import jsonl as json_lines
from dragoman.store import queries, writes
from dragoman.store.columns import to_micros
from dragoman.store.database import Database, Synchronous, default_url
from dragoman.store.errors import StoreError
from dragoman.store.migrate import migrate
from dragoman.store.records import ExportResult, SearchHit, SessionPage, SessionRecord, StoredSession
from dragoman.store.reports.billing import BillingFilters, iter_billed_replies
from dragoman.store.schema import SEARCH_TABLE
from dragoman.store.writes import TurnRecord, dump_tool_ids

ToolIds = ToolIdMap | Mapping[str, Any]
Extensions = Mapping[str, Mapping[str, Any]]


class Store:
    """Sessions in a database. Threads and processes may share one; use it as a context manager, or call `close`.

    A turn is one transaction: its messages, calls, results, usage and tool ids are there together or not at all. What
    was acknowledged stays, through a crash of the program and, unless ``synchronous`` is "normal", of the machine.
    """

    def __init__(
        self,
        url: str | URL | None = None,
        *,
        timeout: float = 60.0,
        synchronous: Synchronous = "full",
        pool_size: int = 16,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``url`` is ``sqlite:///chats.db``, ``sqlite://`` (in memory) or ``postgresql://user@host/name``; None means a
        file in the user's data folder. A new database gets its tables, and an older one is migrated.

        ``timeout`` is seconds that a call may wait for other writers. ``pool_size`` is how many connections PostgreSQL
        is asked for at most. ``synchronous`` is SQLite's: with "normal" a crash of the machine may take the last turns
        with it, and each turn is written several times faster.

        Raises StoreVersionError where a newer version wrote the database, ConfigurationError, MissingExtraError among
        them, where the URL is wrong, and StoreError where the database cannot be opened.
        """
        self._clock = clock
        self._database = Database(
            default_url() if url is None else url, timeout=timeout, synchronous=synchronous, pool_size=pool_size
        )
        try:
            migrate(self._database)
            self._indexed = self._database.is_sqlite and self._database.read(
                lambda connection: inspect(connection).has_table(SEARCH_TABLE)
            )
        except BaseException:
            self._database.close()
            raise

    def create(
        self,
        model: str | None = None,
        messages: Sequence[Message] = (),
        *,
        session_id: str | None = None,
        tool_ids: ToolIds | None = None,
        extensions: Extensions | None = None,
        attempts: Sequence[Message] = (),
        title: str | None = None,
        workspace: str | None = None,
        routing_policy: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        team_id: str | None = None,
    ) -> SessionRecord:
        """A new session, with its first turn where one is given: its version is then 1, and 0 otherwise.

        ``metadata`` is the caller's own JSON. The other arguments are those of `append`. Raises ConflictError where a
        session of that id is there already, and StoreError where an argument cannot be stored.
        """
        turn = _new_turn_record(messages, attempts, tool_ids, extensions)
        now = self._clock()
        try:
            record = SessionRecord(
                id=new_session_id() if session_id is None else session_id,
                version=1 if turn else 0,
                model=model,
                title=title,
                workspace=workspace,
                routing_policy=None if routing_policy is None else dict(routing_policy),
                metadata=dict(metadata or {}),
                user_id=user_id,
                team_id=team_id,
                created_at=now,
                updated_at=now,
            )
        except ValidationError as error:
            raise StoreError(f"the session cannot be stored: {error}") from None
        self._database.write(lambda connection: writes.create(connection, record, turn))
        return record

    def append(
        self,
        session_id: str,
        messages: Sequence[Message] = (),
        *,
        expected_version: int | None,
        tool_ids: ToolIds | None = None,
        model: str | None = None,
        extensions: Extensions | None = None,
        attempts: Sequence[Message] = (),
    ) -> int:
        """Keeps one turn, and gives the session's new version.

        ``expected_version`` is the one that the turn was made on; None appends to whatever is there. ``tool_ids`` is
        the session's whole map: what is new in it is added. ``model`` is the one that answers next; None leaves it as
        it is. ``extensions`` are JSON objects by message id. ``attempts`` are replies that broke and were billed.

        Raises ConflictError where the session has another version, or a message of one of these ids; nothing is
        overwritten. SessionNotFoundError; StoreBusyError; StoreError.
        """
        turn = _new_turn_record(messages, attempts, tool_ids, extensions)
        now = to_micros(self._clock())
        return self._database.write(
            lambda connection: writes.append(
                connection, session_id, turn, expected=expected_version, now=now, model=model
            ),
            single_statement=turn.is_one_statement,
        )

    def annotate(
        self, session_id: str, message_id: str, extensions: Mapping[str, Any], *, expected_version: int | None
    ) -> int:
        """Writes anew what is kept beside a message of the session, and gives the session's new version.

        Raises as `append` does, and StoreError where the session has no such message.
        """
        now = to_micros(self._clock())
        return self._database.write(
            lambda connection: writes.annotate(
                connection, session_id, message_id, extensions, expected=expected_version, now=now
            )
        )

    def load(self, session_id: str) -> StoredSession:
        """The session as it is at one moment. Raises SessionNotFoundError, and UnreadableError where a row was changed
        to something that is no message."""
        return self._database.read(lambda connection: queries.load(connection, session_id))

    def record(self, session_id: str) -> SessionRecord:
        """The session without its messages. Raises SessionNotFoundError."""
        return self._database.read(lambda connection: queries.record(connection, session_id))

    def fork(
        self, session_id: str, at_message_id: str | None = None, *, new_session_id: str | None = None
    ) -> SessionRecord:
        """A new session that begins with the messages of another one, up to and including that one; None copies all.

        Messages and tool calls keep their ids, so that requests keep their prefix. A call whose result comes later is
        pending again. Raises SessionNotFoundError, and ConflictError where ``new_session_id`` is taken.
        """
        new_id = _new_id() if new_session_id is None else new_session_id
        now = to_micros(self._clock())

        def fork_and_read(connection: Any) -> SessionRecord:
            writes.fork(connection, session_id, at_message_id, new_id, now)
            return queries.record(connection, new_id)

        return self._database.write(fork_and_read)

    def list(
        self,
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        model: str | None = None,
        since: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> SessionPage:
        """Sessions, the last used first. ``since`` is when they were last used; ``limit`` is at most 1000.

        ``cursor`` is the one of the page before. A session that is used meanwhile moves to the front. Raises StoreError
        where an argument makes no sense.
        """
        return self._database.read(
            lambda connection: queries.page(
                connection, user_id=user_id, team_id=team_id, model=model, since=since, limit=limit, cursor=cursor
            )
        )

    def search(
        self, text: str, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[SearchHit, ...]:
        """Messages that hold this text as it stands, whatever its case, the newest first. Searched are text blocks,
        those of tool results among them. Nothing in the text is an operator. ``user_id`` is the session's."""
        return self._database.read(
            lambda connection: queries.search(
                connection,
                text,
                user_id=user_id,
                session_id=session_id,
                limit=limit,
                sqlite=self._database.is_sqlite,
                indexed=self._indexed,
            )
        )

    def billed_replies(
        self,
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Message]:
        """Every reply and attempt that was billed, without its content: for cost reports.

        ``user_id`` and ``team_id`` are those noted on the reply; ``since`` is the first moment, ``until`` the first one
        after. They are read some at a time: what is kept meanwhile may be among them.
        """
        filters: BillingFilters = {
            "user_id": user_id, "team_id": team_id, "session_id": session_id, "since": since, "until": until,
        }  # fmt: skip
        return (bill.message for bill in iter_billed_replies(self._database.read, filters))

    def total_spend(
        self, *, user_id: str | None = None, team_id: str | None = None, since: datetime | None = None
    ) -> CostLine:
        """What the replies of a user, of a team, or all came to, as they were priced; for `Budget.count`."""
        return sum_lines(
            cost_line((), reply.usage) for reply in self.billed_replies(user_id=user_id, team_id=team_id, since=since)
        )

    def export_replies(
        self,
        folder: str | Path,
        *,
        since: date | None = None,
        until: date | None = None,
        text: bool = False,
        overwrite: bool = False,
    ) -> ExportResult:
        """Writes what `bills` tells as Parquet, one file a day (`dragoman.store.reports.export`), for reports with
        DuckDB;
        ``since`` is the first day, in UTC, ``until`` the first one after. The folder then has what the store has:
        days that have changed are written anew, each as a whole, and ``everything`` writes the others, too.

        What was said is left out, unless ``text`` asks for it. Memory stays flat, however many there are. Raises
        MissingExtraError without DuckDB, and StoreError.
        """
        from dragoman.store.reports.export import export  # reports are rare, and take long to import

        return export(self._database.read, Path(folder), since=since, until=until, text=text, overwrite=overwrite)

    def export(self, session_id: str) -> Iterator[str]:
        """The session as lines of JSON, without line ends; all of it is read before the first line. Raises as `load`
        does, at once."""
        return json_lines.write(self.load(session_id))

    def import_lines(self, lines: Iterable[str | bytes], *, session_id: str | None = None) -> SessionRecord:
        """The session that `export` wrote, under its own id or another one.

        Raises UnreadableError, naming the line, where the lines are something else or not all there; StoreVersionError
        where they are of a newer version; ConflictError where the id is taken.
        """
        stored = json_lines.read(lines)
        turn = TurnRecord(stored.messages, stored.attempts, stored.tool_ids, stored.extensions, stored.inherited)
        record = stored.record
        if session_id is not None:
            record = record.model_copy(update={"id": session_id})
            turn = replace(
                turn,
                messages=_detach_session(turn.messages, stored.id),
                attempts=_detach_session(turn.attempts, stored.id),
            )
        self._database.write(lambda connection: writes.create(connection, record, turn))
        return record

    def delete(self, session_id: str) -> None:
        """Deletes the session and everything that hangs on it; forks of it stay. Raises SessionNotFoundError."""
        self._database.write(lambda connection: writes.delete_session(connection, session_id))

    def close(self) -> None:
        """Releases the connections; one in memory is gone then."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self._database.url.render_as_string(hide_password=True)!r})"


_new_id = new_session_id


def _new_turn_record(
    messages: Sequence[Message], attempts: Sequence[Message], tool_ids: ToolIds | None, extensions: Extensions | None
) -> TurnRecord:
    return TurnRecord(tuple(messages), tuple(attempts), dump_tool_ids(tool_ids), extensions or {})


def _detach_session(messages: tuple[Message, ...], session_id: str) -> tuple[Message, ...]:
    """Messages of that session belong to none, and so to the one that takes them in."""
    return tuple(
        message.model_copy(update={"session_id": ""}) if message.session_id == session_id else message
        for message in messages
    )
