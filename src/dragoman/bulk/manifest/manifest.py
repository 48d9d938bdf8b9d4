"""The manifest of a run: requests, outcomes and requests in flight, in SQLite or PostgreSQL.

A request is recorded before it is sent and its outcome when it arrives. If a process ends at any moment, exactly the
requests with an unknown end stay in flight.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dragoman.adapter.errors import ConfigurationError
from dragoman.batch import BatchHandle
from dragoman.bulk.manifest.records import (
    VERSION,
    LostRequest,
    RowRecord,
    RowUsage,
    State,
    answers,
    batches,
    lost_requests,
    metadata,
    runs,
    sum_known,
)
from dragoman.private_files import create_private_folder, open_private
from dragoman.sql import MAX_ID, insert_into, lock_for_migration
from dragoman.store.columns import decode_optional, encode_optional
from dragoman.store.database import Database
from dragoman.store.errors import StoreError

_USAGE_COLUMNS = tuple(RowUsage.__slots__)
_OWN_COLUMNS = tuple(name for name in RowRecord.__slots__ if name != "paid")
_PAGE_SIZE = 1_000
_ADVISORY_LOCK = 7021780
"""PostgreSQL's lock for one program at a time that creates the tables."""


class Manifest:
    """``location`` is an SQLite file or a database URL. One process at a time works on a run; a database may hold
    several runs, each with a ``name``.

    Raises ConfigurationError if another process works on the run or its settings differ, and StoreError.
    """

    def __init__(self, location: str | Path, name: str = "bulk") -> None:
        if not 0 < len(name) <= MAX_ID:
            raise ConfigurationError(f"the name of a run must have 1 to {MAX_ID} characters")
        is_file = isinstance(location, Path) or "://" not in location
        url = sa.URL.create("sqlite", database=str(location)) if is_file else str(location)
        self.location = str(location) if is_file or str(location).startswith("sqlite") else "the database"
        self.name = name
        self.run_no = 0
        self._database = Database(url, timeout=30.0, synchronous="full", pool_size=4)
        self._lock = lock_run(self._database, name)
        try:
            self._database.write(_create_tables)
        except BaseException:
            self.close()
            raise

    def open_run(self, run_config: Mapping[str, Any], models: Sequence[str]) -> list[int]:
        """Start or resume the run. Return the models' numbers. Requests that were in flight are recorded as lost."""

        def work(connection: sa.Connection) -> list[int]:
            run = connection.execute(sa.select(runs).where(runs.c.name == self.name)).one_or_none()
            if run is None:
                values = {"name": self.name, "version": VERSION, "created_at": now_micros()}
                asked = {"asked": json.dumps(run_config), "models": json.dumps(models)}
                inserted = connection.execute(sa.insert(runs).values(**values, **asked))
                assert inserted.inserted_primary_key is not None
                self.run_no = inserted.inserted_primary_key[0]
                return list(range(len(models)))
            if run.version > VERSION:
                raise ConfigurationError("a newer dragoman wrote this manifest: upgrade dragoman to continue its run")
            stored = json.loads(run.asked)
            names = {*stored, *run_config}
            if different := sorted(name for name in names if stored.get(name) != run_config.get(name)):
                raise ConfigurationError(
                    f"the run {self.name!r} in {self.location} was started with different settings "
                    f"({', '.join(different)}): resume it with the same settings, or start another run with another"
                    " file (to=, or -o of the command) or another name (name=, --name)"
                )
            self.run_no = run.run_no
            known = list(json.loads(run.models))
            known += [model for model in models if model not in known]
            connection.execute(sa.update(runs).where(runs.c.run_no == self.run_no).values(models=json.dumps(known)))
            in_flight = sa.and_(answers.c.run_no == self.run_no, answers.c.state == State.IN_FLIGHT.value)
            claimed = map(_read_row, connection.execute(sa.select(answers).where(in_flight)))
            lost = [LostRequest.of(row, "killed", sum_known(row.paid.cost_usd, row.estimate_usd)) for row in claimed]
            self._save(connection, (), lost, ())
            connection.execute(sa.delete(answers).where(in_flight))
            return [known.index(model) for model in models]

        return self._database.write(work)

    def load_known(self, model_no: int, first: int, count: int) -> dict[int, RowRecord]:
        """Return the known rows by number, among ``count`` rows starting at ``first``."""
        return self._load_rows(self.of_model(model_no), answers.c.row_no.between(first, first + count - 1))

    def load_batched(self, model_no: int, row_nos: Sequence[int]) -> dict[int, RowRecord]:
        """Return these rows by number, as far as they are in a batch."""
        in_batch = answers.c.state == State.BATCHED.value
        return self._load_rows(self.of_model(model_no), answers.c.row_no.in_(row_nos), in_batch)

    def has_invalid(self, model_no: int) -> bool:
        """Return whether a row is to be asked again in another batch."""
        conditions = (self.of_model(model_no), answers.c.state == State.INVALID.value)
        return bool(self.read(sa.select(answers.c.row_no).where(*conditions).limit(1)))

    def _load_rows(self, *conditions: sa.ColumnElement[bool]) -> dict[int, RowRecord]:
        is_invalid = answers.c.state == State.INVALID.value  # other answers may be long, and are not needed
        return {row.row_no: row for row in map(_read_row, self.read(_select_rows(is_invalid).where(*conditions)))}

    def save(
        self,
        rows: Sequence[RowRecord] = (),
        lost: Sequence[LostRequest] = (),
        unsent: Sequence[RowRecord] = (),
    ) -> None:
        """Save all of these, or nothing if this raises. ``unsent`` are claims of requests that were not sent, or that
        the provider refused without processing them.
        """
        if rows or lost or unsent:
            self._database.write(lambda connection: self._save(connection, rows, lost, unsent))

    def iter_answers(self, model_no: int) -> Iterator[RowRecord]:
        """Yield the rows of one model in their order. Only a valid answer is shown."""
        c = answers.c
        query = _select_rows(c.state == State.ANSWERED.value).where(self.of_model(model_no)).order_by(c.row_no)
        last = -1
        while found := self.read(query.where(c.row_no > last).limit(_PAGE_SIZE)):
            yield from map(_read_row, found)
            last = found[-1].row_no

    def has_labels(self) -> bool:
        """Return whether any row of the run has labels."""
        has_labels = sa.and_(answers.c.run_no == self.run_no, answers.c.labels.is_not(None), answers.c.labels != "[]")
        return bool(self.read(sa.select(answers.c.row_no).where(has_labels).limit(1)))

    # -- The provider's batches

    def save_batch(self, model_no: int, handle: BatchHandle, row_nos: Iterable[int]) -> None:
        """Save a submitted batch and mark its rows as batched."""

        def work(connection: sa.Connection) -> None:
            count = sa.select(sa.func.count()).select_from(batches).where(self.of_model(model_no, batches))
            number = connection.execute(count).scalar_one()
            key = {"run_no": self.run_no, "model_no": model_no, "batch_no": number}
            connection.execute(sa.insert(batches).values(**key, handle=handle.model_dump_json(), fetched=False))
            of_row = sa.update(answers).where(self.of_model(model_no), answers.c.row_no == sa.bindparam("at_row"))
            rows = [{"at_row": row_no} for row_no in row_nos]
            connection.execute(of_row.values(state=State.BATCHED.value), rows)

        self._database.write(work)

    def pending_batches(self, model_no: int) -> list[tuple[int, BatchHandle]]:
        """Return the batches that were not fetched yet, with their numbers."""
        is_pending = sa.and_(self.of_model(model_no, batches), batches.c.fetched.is_(False))
        found = self.read(
            sa.select(batches.c.batch_no, batches.c.handle).where(is_pending).order_by(batches.c.batch_no)
        )
        return [(row.batch_no, BatchHandle.model_validate_json(row.handle)) for row in found]

    def mark_fetched(self, model_no: int, batch_no: int) -> None:
        is_batch = sa.and_(self.of_model(model_no, batches), batches.c.batch_no == batch_no)
        self._database.write(
            lambda connection: connection.execute(sa.update(batches).where(is_batch).values(fetched=True))
        )

    def read(self, statement: Any) -> Sequence[Any]:
        """Return the rows of a query, for reports."""
        found: Sequence[Any] = self._database.read(lambda connection: connection.execute(statement).all())
        return found

    def close(self) -> None:
        self._lock.close()
        self._database.close()

    def of_model(self, model_no: int, table: sa.Table = answers) -> sa.ColumnElement[bool]:
        return sa.and_(table.c.run_no == self.run_no, table.c.model_no == model_no)

    def _save(
        self,
        connection: sa.Connection,
        rows: Sequence[RowRecord],
        lost: Sequence[LostRequest],
        unsent: Sequence[RowRecord],
    ) -> None:
        if lost:
            connection.execute(sa.insert(lost_requests), [{"run_no": self.run_no, **asdict(each)} for each in lost])
        if unsent:
            own = sa.and_(answers.c.model_no == sa.bindparam("of_model"), answers.c.row_no == sa.bindparam("of_row"))
            keys = [{"of_model": each.model_no, "of_row": each.row_no} for each in unsent]
            connection.execute(sa.delete(answers).where(answers.c.run_no == self.run_no, own), keys)
        if rows:
            statement = insert_into(connection, answers)
            key: list[Any] = [each for each in answers.c if each.primary_key]
            updated = {each.name: statement.excluded[each.name] for each in answers.c if not each.primary_key}
            connection.execute(
                statement.on_conflict_do_update(index_elements=key, set_=updated),
                [
                    {
                        **{name: getattr(row, name) for name in _OWN_COLUMNS},
                        **asdict(row.paid),
                        "answer": encode_optional(row.answer),
                        "error": encode_optional(row.error),
                        "labels": json.dumps(sorted(row.labels)),
                        "run_no": self.run_no,
                        "state": row.state.value,
                    }
                    for row in rows
                ],
            )


def _select_rows(shows_answer: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the query for rows, with the answers of those that meet the condition."""
    answer = sa.case((shows_answer, answers.c.answer)).label("answer")
    return sa.select(*(each for each in answers.c if each.name != "answer"), answer)


def _read_row(row: Any) -> RowRecord:
    values = row._asdict()
    paid = RowUsage(*map(values.pop, _USAGE_COLUMNS))
    del values["run_no"]
    return RowRecord(
        **values
        | {
            "answer": decode_optional(row.answer),
            "error": decode_optional(row.error),
            "labels": frozenset(json.loads(row.labels or "[]")),
            "paid": paid,
            "state": State(row.state),
            "tries": row.tries or 0,
        }
    )


def now_micros() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def _create_tables(connection: sa.Connection) -> None:
    lock_for_migration(connection, _ADVISORY_LOCK)
    metadata.create_all(connection)
    known = {column["name"] for column in sa.inspect(connection).get_columns(answers.name)}
    if answers.c.labels.name not in known:  # a version before labels, which may go on writing, made the table
        connection.exec_driver_sql(f"ALTER TABLE {answers.name} ADD COLUMN {answers.c.labels.name} TEXT")


def lock_run(database: Database, name: str) -> ExitStack:
    """Lock a run until the returned stack is closed: with two processes, requests in flight would be counted as lost.

    The system, or the database, releases the lock when the process ends, however it ends. Raises ConfigurationError if
    another process works on the run, and StoreError if the file of the lock cannot be written.
    """
    taken = ConfigurationError(
        f"another process is working on the run {name!r}: wait for it, or give this run another name"
    )
    with ExitStack() as lock:
        if not database.is_sqlite:
            _lock_database(database, name, lock, taken)
        elif database.file is not None:
            _lock_file(database.file.with_name(f"{database.file.name}.lock"), lock, taken)
        return lock.pop_all()


def _lock_file(path: Path, lock: ExitStack, taken: ConfigurationError) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has no such lock: the caller must not start a run twice
        return
    try:
        create_private_folder(path.parent)
        file = lock.enter_context(open(path, "ab", opener=open_private))  # noqa: SIM115 -- the stack closes it
    except OSError as error:
        raise StoreError(f"the run cannot be kept at {path.parent}: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise taken from None


def _lock_database(database: Database, name: str, lock: ExitStack, taken: ConfigurationError) -> None:
    database.read(lambda _: None)  # raises StoreError if the server cannot be reached
    connection: Any = database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def release() -> None:
        with suppress(Exception):  # a broken connection holds no lock
            connection.execute(sa.text("SELECT pg_advisory_unlock_all()"))  # a server closes connections late
        with suppress(Exception):
            connection.detach()  # close it instead of returning it to the pool: it may hold the lock
            connection.close()

    lock.callback(release)
    # These locks are those of the whole database: a run of the same name in another schema is another run.
    place = f"{connection.execute(sa.text('SELECT current_schema()')).scalar_one()}.{name}"
    key = int.from_bytes(blake2b(place.encode(), digest_size=8, person=b"dragoman-bulk").digest(), signed=True)
    if not connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar_one():
        raise taken
