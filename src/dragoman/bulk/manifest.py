"""The manifest of a run: what was asked, what came of it, and what was under way, in SQLite or PostgreSQL.

A request is noted before it is sent and its outcome when it is there, so a process that ends at any moment leaves
behind exactly the requests that nobody can know the end of.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from dragoman.adapter.errors import ConfigurationError
from dragoman.batch import BatchHandle
from dragoman.bulk.ownership import Ownership
from dragoman.bulk.records import Claim, Known, Lost, Outcome, State
from dragoman.bulk.tables import VERSION, answers, batches, lost, metadata, runs
from dragoman.store.columns import optional, optional_plain
from dragoman.store.database import Database
from dragoman.store.schema import MAX_ID

_SETTLED = tuple(name for name in Outcome.__slots__ if name not in ("model_no", "row_no"))
_READ_AT_ONCE = 1_000


class Written(NamedTuple):
    """One row's outcome as it is written out."""

    row_no: int
    state: State
    answer: str | None
    error: str | None
    cost_usd: Decimal | None
    tokens: int | None
    ms: int | None


class Manifest:
    """``place`` is a file of SQLite or a URL. One process at a time works on a run; several may have runs in one
    database, each with a ``name``.

    Raises ConfigurationError where the run is another process's or asks something else, and StoreError.
    """

    def __init__(self, place: str | Path, name: str = "bulk") -> None:
        if not 0 < len(name) <= MAX_ID:
            raise ConfigurationError(f"the name of a run has 1 to {MAX_ID} characters")
        url = place if isinstance(place, str) and "://" in place else URL.create("sqlite", database=str(place))
        self.place = str(place) if not isinstance(url, str) or url.startswith("sqlite") else "the database"
        self.name = name
        self.run_no = 0
        self._database = Database(url, timeout=30.0, synchronous="full", pool_size=4)
        self._ownership = Ownership(self._database, name)
        try:
            self._database.write(_made)
        except BaseException:
            self.close()
            raise

    def begin(self, asked: Mapping[str, Any], models: Sequence[str]) -> list[int]:
        """The numbers of the models in this run, which begins or goes on. What was under way is lost from now on."""

        def work(connection: Connection) -> list[int]:
            found = connection.execute(select(runs).where(runs.c.name == self.name)).one_or_none()
            if found is None:
                written = {"name": self.name, "version": VERSION, "asked": json.dumps(asked), "created_at": now()}
                made = connection.execute(insert(runs).values(models=json.dumps(models), **written))
                assert made.inserted_primary_key is not None
                self.run_no = made.inserted_primary_key[0]
                return list(range(len(models)))
            self._check(found, asked)
            self.run_no = found.run_no
            known = list(json.loads(found.models))
            known += [model for model in models if model not in known]
            connection.execute(update(runs).where(runs.c.run_no == self.run_no).values(models=json.dumps(known)))
            self._lose(connection)
            return [known.index(model) for model in models]

        return self._database.write(work)

    def known(self, model_no: int, first: int, count: int) -> dict[int, Known]:
        """What is there of that many rows from the first on, by their numbers."""
        named = (answers.c.row_no, answers.c.state, answers.c.digest, answers.c.sent_at, answers.c.cost_usd)
        asked = select(*named).where(self._of(model_no), answers.c.row_no.between(first, first + count - 1))
        found = self._database.read(lambda connection: connection.execute(asked).all())
        return {row.row_no: Known(State(row.state), row.digest, row.sent_at, row.cost_usd) for row in found}

    def keep(
        self,
        claims: Sequence[Claim] = (),
        outcomes: Sequence[Outcome] = (),
        gone: Sequence[Lost] = (),
        unsent: Sequence[Claim] = (),
    ) -> None:
        """Keeps all of it, or nothing where this raises. ``unsent``: claims of requests that were not sent after all,
        or that the provider refused to read."""
        if claims or outcomes or gone or unsent:
            self._database.write(lambda connection: self._keep(connection, claims, outcomes, gone, unsent))

    def written(self, model_no: int) -> Iterator[Written]:
        """The outcomes of one model in the order of the rows."""
        tokens = (answers.c.input_tokens, answers.c.output_tokens, answers.c.cached_input_tokens)
        total = sum(tokens, answers.c.cache_creation_input_tokens)
        c = answers.c
        named = (c.row_no, c.state, c.answer, c.error, c.cost_usd, total.label("tokens"), c.ms)
        asked = select(*named).where(self._of(model_no)).order_by(c.row_no).limit(_READ_AT_ONCE)
        last = -1
        while True:
            found = self.read(asked.where(c.row_no > last))
            for row in found:
                yield Written(
                    row.row_no,
                    State(row.state),
                    optional_plain(row.answer),
                    optional_plain(row.error),
                    row.cost_usd,
                    row.tokens,
                    row.ms,
                )
            if len(found) < _READ_AT_ONCE:
                return
            last = found[-1].row_no

    # -- Batches of the provider's

    def hand_in(self, model_no: int, handle: BatchHandle, row_nos: Iterable[int]) -> None:
        """Keeps a batch that was handed in; its rows stand in it from now on."""

        def work(connection: Connection) -> None:
            own = and_(batches.c.run_no == self.run_no, batches.c.model_no == model_no)
            number = connection.execute(select(func.count()).select_from(batches).where(own)).scalar_one()
            connection.execute(
                insert(batches).values(
                    run_no=self.run_no,
                    model_no=model_no,
                    batch_no=number,
                    handle=handle.model_dump_json(),
                    fetched=False,
                )
            )
            rows = [{"at_row": row_no} for row_no in row_nos]
            connection.execute(
                update(answers)
                .where(self._of(model_no), answers.c.row_no == bindparam("at_row"))
                .values(state=State.BATCHED.value),
                rows,
            )

        self._database.write(work)

    def handed_in(self, model_no: int) -> list[tuple[int, BatchHandle]]:
        """The batches that were not fetched yet, by their numbers."""
        own = (batches.c.run_no == self.run_no, batches.c.model_no == model_no, batches.c.fetched.is_(False))
        asked = select(batches.c.batch_no, batches.c.handle).where(*own).order_by(batches.c.batch_no)
        found = self._database.read(lambda connection: connection.execute(asked).all())
        return [(row.batch_no, BatchHandle.model_validate_json(row.handle)) for row in found]

    def fetched(self, model_no: int, batch_no: int) -> None:
        own = (batches.c.run_no == self.run_no, batches.c.model_no == model_no, batches.c.batch_no == batch_no)
        self._database.write(lambda connection: connection.execute(update(batches).where(*own).values(fetched=True)))

    def read(self, statement: Any) -> Sequence[Any]:
        """What a query finds, for reports."""
        found: Sequence[Any] = self._database.read(lambda connection: connection.execute(statement).all())
        return found

    def close(self) -> None:
        self._ownership.release()
        self._database.close()

    def _of(self, model_no: int) -> ColumnElement[bool]:
        return and_(answers.c.run_no == self.run_no, answers.c.model_no == model_no)

    def _check(self, found: Any, asked: Mapping[str, Any]) -> None:
        if found.version > VERSION:
            raise ConfigurationError("a newer dragoman wrote this manifest: upgrade to go on with its run")
        before = json.loads(found.asked)
        if other := sorted(name for name in {*before, *asked} if before.get(name) != asked.get(name)):
            raise ConfigurationError(
                f"the run {self.name!r} in {self.place} asked its rows with another {', '.join(other)}: ask as before"
                " to go on with it, or give this run a name or a manifest of its own"
            )

    def _lose(self, connection: Connection) -> None:
        under_way = and_(answers.c.run_no == self.run_no, answers.c.state == State.IN_FLIGHT.value)
        c = answers.c
        named = select(c.run_no, c.model_no, c.row_no, c.sent_at, literal("killed"), c.estimate_usd).where(under_way)
        columns = ("run_no", "model_no", "row_no", "sent_at", "why", "estimate_usd")
        connection.execute(insert(lost).from_select(columns, named))
        connection.execute(delete(answers).where(under_way))

    def _keep(
        self,
        connection: Connection,
        claims: Sequence[Claim],
        outcomes: Sequence[Outcome],
        gone: Sequence[Lost],
        unsent: Sequence[Claim],
    ) -> None:
        if outcomes:
            connection.execute(self._settling, [_settled(each) for each in outcomes])
        if gone:
            connection.execute(insert(lost), [{"run_no": self.run_no, **asdict(each)} for each in gone])
        if unsent:
            keys = [{"at_model": each.model_no, "at_row": each.row_no} for each in unsent]
            connection.execute(delete(answers).where(self._at), keys)
        if claims:
            made: Any = (sqlite if self._database.is_sqlite else postgresql).insert(answers)
            key: list[Any] = [each for each in answers.c if each.primary_key]
            changed = {each.name: made.excluded[each.name] for each in answers.c if not each.primary_key}
            connection.execute(
                made.on_conflict_do_update(index_elements=key, set_=changed), [self._claimed(one) for one in claims]
            )

    @property
    def _at(self) -> ColumnElement[bool]:
        at = (answers.c.model_no == bindparam("at_model"), answers.c.row_no == bindparam("at_row"))
        return and_(answers.c.run_no == self.run_no, *at)

    @property
    def _settling(self) -> Any:
        return update(answers).where(self._at).values({name: bindparam(f"new_{name}") for name in _SETTLED})

    def _claimed(self, claim: Claim) -> dict[str, Any]:
        return {
            **dict.fromkeys(answers.c.keys()),
            **{name: getattr(claim, name) for name in Claim.__slots__},
            "run_no": self.run_no,
            "state": State.IN_FLIGHT.value,
        }


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def added(*amounts: Decimal | None) -> Decimal | None:
    """The sum of what is known; None where nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known, Decimal(0)) if known else None


def _settled(outcome: Outcome) -> dict[str, Any]:
    values = {f"new_{name}": getattr(outcome, name) for name in _SETTLED}
    values |= {"new_answer": optional(outcome.answer), "new_error": optional(outcome.error)}
    return {"at_model": outcome.model_no, "at_row": outcome.row_no, **values, "new_state": outcome.state.value}


def _made(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7021780)")  # one program at a time makes the tables
    metadata.create_all(connection)
