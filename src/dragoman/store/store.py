"""Store: keeps sessions in SQLite or PostgreSQL."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError
from sqlalchemy import URL

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical import rules
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.open_turns import TurnStep
from dragoman.pricing.analytics.cost_lines import CostLine, cost_line, sum_lines
from dragoman.sql import Synchronous
from dragoman.store import queries, retention, writes
from dragoman.store.columns import describe_mistake, read_mapping, read_messages, to_micros, wrong_class
from dragoman.store.database import Database, check_version, default_url, migrate
from dragoman.store.errors import StoreError
from dragoman.store.records import (
    ExportResult,
    RetentionAction,
    RetentionRecord,
    SearchHit,
    SessionPage,
    SessionRecord,
    StoredCall,
    StoredSession,
    UserDeletion,
    read_lines,
    write_lines,
)
from dragoman.store.reports import BillingFilters, iter_billed_replies
from dragoman.store.retention import delete_user
from dragoman.store.turns import FAILED, PENDING
from dragoman.store.writes import TurnRecord

ToolIds = ToolIdMap | Mapping[str, Any]
Extensions = Mapping[str, Mapping[str, Any]]


class Store:
    """Sessions in a database. Threads and processes may share one; use it as a context manager, or call `close`.

    What `append` stores is one transaction: messages, calls, results, usage and tool ids are stored together or not at
    all. A session stores each step of a turn so. An acknowledged step survives a crash of the program and, unless
    ``synchronous`` is "normal", of the machine.
    """

    stores_steps = True
    """Whether `create` and `append` take ``step``."""

    def __init__(
        self,
        url: str | URL | None = None,
        *,
        timeout: float = 60.0,
        synchronous: Synchronous = "full",
        pool_size: int = 16,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        read_only: bool = False,
        allow_other_tables: bool = False,
        migrates: bool = True,
    ) -> None:
        """``url`` is ``sqlite:///chats.db``, ``sqlite://`` (in memory) or ``postgresql://user@host/name``; None means a
        file in the user's data folder. Missing tables are created, and an older database is migrated.

        ``read_only``, or ``?mode=ro`` in a SQLite URL: no table is created or migrated, no byte of a file changes, and
        methods that write raise StoreError. ``allow_other_tables``: create the tables also in a database that has
        tables of another program. ``migrates=False``: a database that is missing or older is refused, so that only an
        explicit `dragoman store migrate` changes it.

        ``timeout`` is the seconds that a call may wait for other writers. ``pool_size`` is the maximum of PostgreSQL
        connections. ``synchronous`` is SQLite's setting: with "normal" a crash of the machine may lose the last turns,
        and writing a turn is several times faster.

        Raises StoreVersionError if a newer version wrote the database, ConfigurationError, including MissingExtraError,
        for a wrong URL, and StoreError if the database cannot be opened, or belongs to another program.
        """
        self._clock = clock
        self._database = Database(
            default_url(create_folder=not read_only) if url is None else url,
            timeout=timeout,
            synchronous=synchronous,
            pool_size=pool_size,
            read_only=read_only,
        )
        try:
            if self._database.read_only or not migrates:
                check_version(self._database)
            else:
                migrate(self._database, allow_other_tables=allow_other_tables)
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
        step: TurnStep | None = None,
    ) -> SessionRecord:
        """Return a new session, optionally with its first turn or step: its version is then 1, and 0 otherwise.

        ``metadata`` is the caller's own JSON. The other arguments are those of `append`. Raises ConflictError if the id
        is taken, and StoreError if an argument cannot be stored.
        """
        given = {
            "model": model,
            "messages": messages,
            "session_id": session_id,
            "tool_ids": tool_ids,
            "extensions": extensions,
            "attempts": attempts,
            "title": title,
            "workspace": workspace,
            "routing_policy": routing_policy,
            "metadata": metadata,
            "user_id": user_id,
            "team_id": team_id,
            "step": step,
        }
        record, turn = self._new_record(given)
        self._database.write(lambda connection: writes.create(connection, [(record, turn)]))
        return record

    def create_all(self, sessions: Iterable[Mapping[str, Any]]) -> None:
        """Store new sessions in one transaction: all of them, or none. Each has the arguments of `create` by name.

        Raises as `create` does.
        """
        made = [self._new_record(read_mapping("each session", each)) for each in sessions]
        self._database.write(lambda connection: writes.create(connection, made))

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
        step: TurnStep | None = None,
    ) -> int:
        """Store one turn, or one step of a turn, and return the session's new version.

        ``expected_version`` is the version that the turn was made on; None appends to any version. ``tool_ids`` is the
        session's whole map: its new entries are added. ``model`` is the one that answers next; None keeps the current
        one. ``extensions`` are JSON objects by message id. ``attempts`` are replies that broke and were billed.
        ``step`` is what a session says about its open turn.

        Raises ConflictError if the session has another version, or a message with one of these ids; nothing is
        overwritten. Also raises SessionNotFoundError, StoreBusyError and StoreError.
        """
        turn = _new_turn_record(messages, attempts, tool_ids, extensions, step)
        now = to_micros(self._clock())
        append = partial(
            writes.append, session_id=session_id, turn=turn, expected=expected_version, now=now, model=model
        )
        return self._database.write(append, single_statement=turn.is_one_statement)

    def _new_record(self, given: Mapping[str, Any]) -> tuple[SessionRecord, TurnRecord]:
        """Return what is stored of a new session, with the arguments of `create` by name."""
        turn = _new_turn_record(**{name: given[name] for name in _OF_TURN & given.keys()})
        fields = {name: given[name] for name in given.keys() - _OF_TURN if given[name] is not None}
        fields |= {name: read_mapping(name, fields[name]) for name in ("routing_policy", "metadata") if name in fields}
        session_id, now = fields.pop("session_id", None), self._clock()
        if session_id is None:
            session_id = new_session_id()
        try:
            record = SessionRecord(id=session_id, version=1 if turn else 0, created_at=now, updated_at=now, **fields)
        except ValidationError as error:
            raise StoreError(f"the session cannot be stored: {describe_mistake(error)}") from None
        return record, turn

    def annotate(
        self, session_id: str, message_id: str, extensions: Mapping[str, Any], *, expected_version: int | None
    ) -> int:
        """Replace the extensions of a message of the session, and return the session's new version.

        Raises as `append` does, and StoreError if the session has no such message.
        """
        extensions = read_mapping("extensions", extensions)
        now = to_micros(self._clock())
        return self._database.write(
            lambda connection: writes.annotate(connection, session_id, message_id, extensions, expected_version, now)
        )

    def load(self, session_id: str) -> StoredSession:
        """Return the session at one moment. Raises SessionNotFoundError, and UnreadableError for a malformed row."""
        return self._database.read(lambda connection: queries.load(connection, session_id))

    def record(self, session_id: str) -> SessionRecord:
        """Return the session without its messages. Raises SessionNotFoundError."""
        return self._database.read(lambda connection: queries.record(connection, session_id))

    def fork(
        self, session_id: str, at_message_id: str | None = None, *, new_session_id: str | None = None
    ) -> SessionRecord:
        """Return a new session with the messages of another one, up to and including that message; None copies all.

        Messages and tool calls keep their ids, so that requests keep their prefix. A call whose result comes later is
        pending again. Raises SessionNotFoundError, and ConflictError if ``new_session_id`` is taken.
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
        """Return sessions, the last used first. ``since`` is a bound on their last use; ``limit`` is at most 1000.

        ``cursor`` is that of the previous page. A session that is used in the meantime moves to the front. Raises
        StoreError for an invalid argument.
        """
        filters = {"user_id": user_id, "team_id": team_id, "active_model": model}
        return self._database.read(
            lambda connection: queries.page(connection, filters, since=since, limit=limit, cursor=cursor)
        )

    def search(
        self, text: str, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[SearchHit, ...]:
        """Return the messages that contain this text literally, ignoring case, the newest first. The search covers text
        blocks, including those of tool results. Nothing in the text is an operator. ``user_id`` is the session's.
        """
        find = partial(queries.search, query=text, user_id=user_id, session_id=session_id, limit=limit)
        return self._database.read(find)

    def unanswered(
        self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[StoredCall, ...]:
        """Return the calls without a result, the newest first: those that wait for one, and those that were given up.
        One that has started, in a session of `unfinished`, may have run. ``user_id`` is the session's.
        """
        find = partial(queries.calls, status=PENDING, user_id=user_id, session_id=session_id, limit=limit)
        return self._database.read(find)

    def failed_calls(
        self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 50
    ) -> tuple[StoredCall, ...]:
        """Return the calls whose result is an error, the newest first."""
        find = partial(queries.calls, status=FAILED, user_id=user_id, session_id=session_id, limit=limit)
        return self._database.read(find)

    def unfinished(self, *, limit: int = 50) -> tuple[str, ...]:
        """Return the ids of the sessions in the middle of a turn, the longest ago first: their program runs, or was
        killed."""
        return self._database.read(lambda connection: queries.unfinished(connection, limit=limit))

    def billed_replies(
        self,
        *,
        user_id: str | None = None,
        team_id: str | None = None,
        session_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Message]:
        """Return every reply and attempt that was billed, without its content: for cost reports.

        ``user_id`` and ``team_id`` are those of the reply; ``since`` is inclusive, ``until`` exclusive. Replies are
        read in batches: one that is stored in the meantime may be among them.
        """
        filters: BillingFilters = {
            "user_id": user_id, "team_id": team_id, "session_id": session_id, "since": since, "until": until,
        }  # fmt: skip
        return (bill.message for bill in iter_billed_replies(self._database.read, filters))

    def total_spend(
        self, *, user_id: str | None = None, team_id: str | None = None, since: datetime | None = None
    ) -> CostLine:
        """Return the recorded cost of all replies, or of those of a user or team."""
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
        """Write the replies of `billed_replies` as Parquet, one file per day (`dragoman.store.reports.export`), for
        reports with DuckDB; ``since`` is the first day, in UTC, ``until`` the first one after. The folder then matches
        the store: changed days are replaced, each as a whole, and with ``overwrite`` the others, too.

        The content is left out unless ``text`` is set. Memory use is constant. Raises MissingExtraError without DuckDB,
        and StoreError.
        """
        from dragoman.store.reports.export import export  # reports are rare, and their import is slow

        return export(self._database.read, Path(folder), since=since, until=until, text=text, overwrite=overwrite)

    def export(self, session_id: str) -> Iterator[str]:
        """Return the session as JSON lines, without line ends; all of it is read before the first line. Raises as
        `load` does, at once.
        """
        return write_lines(self.load(session_id))

    def import_lines(self, lines: Iterable[str | bytes], *, session_id: str | None = None) -> SessionRecord:
        """Store the session that `export` wrote, under its own id or another one.

        Raises UnreadableError, naming the line, for malformed or missing lines; StoreVersionError for a newer version;
        ConflictError if the id is taken.
        """
        stored = read_lines(lines)
        rules.warn(stored.messages, f"the imported session {stored.id!r:.60}")
        turn = TurnRecord(stored.messages, stored.attempts, stored.tool_ids, stored.extensions, stored.inherited)
        record = stored.record
        if session_id is not None:
            record = record.model_copy(update={"id": session_id})
            turn = replace(
                turn,
                messages=_detach_session(turn.messages, stored.id),
                attempts=_detach_session(turn.attempts, stored.id),
            )
        self._database.write(lambda connection: writes.create(connection, [(record, turn)]))
        return record

    def delete(self, session_id: str) -> None:
        """Delete the session and all its rows; forks of it stay. Raises SessionNotFoundError."""
        self._database.write(lambda connection: writes.delete_session(connection, session_id))

    def delete_user(self, user_id: str, *, reports: str | Path | None = None, text: bool = False) -> UserDeletion:
        """Delete the data of a user in one transaction, and return what was deleted.

        The user's sessions are deleted with all their rows, and leave the search index. In sessions of others, the
        content of messages and attempts that name the user is replaced by ``[deleted]``; their cost stays, without the
        user. ``reports`` is a folder of `export_replies`, which is then brought up to date (``text`` as there).

        An unknown user is not an error: all numbers are 0. Raises StoreError, and nothing is deleted then.
        """
        now = to_micros(self._clock())
        found = self._database.write(lambda connection: delete_user(connection, user_id, now))
        return found if reports is None else replace(found, reports=self.export_replies(reports, text=text))

    def enforce_retention(
        self,
        *,
        action: RetentionAction = "redact",
        session_idle: timedelta = timedelta(days=1),
        dry_run: bool = False,
    ) -> tuple[RetentionRecord, ...]:
        """Redact or delete the data whose time is over, and return a record for each session that had some.

        The time is that of the retention in the data policies of the sessions. "redact" replaces the content of the
        messages with the data, and of all messages after them, which may repeat it; "delete" deletes their sessions.
        Data that may be kept for its session only is due if the session was not used for ``session_idle``. Each
        session is one transaction. With ``dry_run`` nothing changes. `retention_records` returns the records later.

        Raises StoreError, and what was done before stays done.
        """
        if action not in ("redact", "delete"):
            raise StoreError(f"{action!r:.80}: use redact or delete")
        now = self._clock()
        run = self._database.read if dry_run else self._database.write
        done: list[RetentionRecord] = []
        for row_id in self._database.read(retention.find_candidates):
            enforce = partial(retention.enforce, row_id=row_id, action=action, now=now, session_idle=session_idle)
            if (record := run(partial(enforce, dry_run=dry_run))) is not None:
                done.append(record)
        return tuple(done)

    def retention_records(self, session_id: str | None = None) -> tuple[RetentionRecord, ...]:
        """Return what `enforce_retention` did, the oldest first: in one session, or in all."""
        return self._database.read(lambda connection: retention.read_records(connection, session_id))

    def close(self) -> None:
        """Close the connections; a database in memory is lost."""
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
_OF_TURN = {"messages", "attempts", "tool_ids", "extensions", "step"}
"""The arguments of `Store.create` that belong to its first turn."""


def _new_turn_record(
    messages: Sequence[Message] = (),
    attempts: Sequence[Message] = (),
    tool_ids: ToolIds | None = None,
    extensions: Extensions | None = None,
    step: TurnStep | None = None,
) -> TurnRecord:
    if not isinstance(step, TurnStep | None):
        raise wrong_class("step", "a TurnStep", step)
    return TurnRecord(
        read_messages("messages", messages),
        read_messages("attempts", attempts),
        tool_ids.dump() if isinstance(tool_ids, ToolIdMap) else tool_ids or {},
        {} if extensions is None else read_mapping("extensions", extensions),
        step=step,
    )


def _detach_session(messages: tuple[Message, ...], session_id: str) -> tuple[Message, ...]:
    """Remove the session's id from its messages, so that they belong to the session that imports them."""
    return tuple(
        message.model_copy(update={"session_id": ""}) if message.session_id == session_id else message
        for message in messages
    )
