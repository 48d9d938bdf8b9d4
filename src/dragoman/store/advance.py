"""The statement that a turn begins with: it moves the session on, and adds the turn's messages.

PostgreSQL does both in one statement, which takes the messages as one JSON text, however many they are: a turn of
messages alone is one round trip. SQLite runs in this process, and takes an UPDATE and an INSERT.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json
from sqlalchemy import JSON, Column, Connection, Row, Text, bindparam, cast, func, insert, select, update
from sqlalchemy.sql import Select
from sqlalchemy.sql.dml import ReturningUpdate

from dragoman.store.schema import messages, sessions

# Made once: to build a statement takes as long as to run it.
_ADVANCE = (
    update(sessions)
    .where(sessions.c.id == bindparam("of_session"))
    .values(
        version=sessions.c.version + 1,
        next_seq=sessions.c.next_seq + bindparam("added"),
        updated_at=bindparam("moment"),
        active_model=func.coalesce(bindparam("answering", type_=Text()), sessions.c.active_model),
    )
    .returning(sessions.c.version, sessions.c.next_seq)
)
_ADVANCE_FROM_VERSION = _ADVANCE.where(sessions.c.version == bindparam("seen"))


def _with_messages(advance: ReturningUpdate[Any]) -> Select[Any]:
    """Adds nothing where no session is moved on."""
    advanced = advance.cte("advanced")
    columns = [Column(column.name, column.type) for column in messages.c]
    read = func.json_to_recordset(cast(bindparam("rows", type_=Text()), JSON))
    new = read.table_valued(*columns, name="new", joins_implicitly=True).render_derived(with_types=True)
    known = {"session_id": bindparam("of_session"), "seq": advanced.c.next_seq - bindparam("added") + new.c.seq}
    selected = select(*(known.get(column.name, new.c[column.name]) for column in messages.c)).select_from(advanced)
    inserted = insert(messages).from_select([column.name for column in messages.c], selected).cte("kept")
    return select(advanced.c.version, advanced.c.next_seq).add_cte(inserted)


_ADVANCE_AND_INSERT = _with_messages(_ADVANCE)
_ADVANCE_AND_INSERT_FROM_VERSION = _with_messages(_ADVANCE_FROM_VERSION)
_INSERT = insert(messages)


def advance(
    connection: Connection, session_id: str, rows: Sequence[dict[str, Any]], expected: int | None, **values: Any
) -> Row[Any] | None:
    """The session's new ``version`` and ``next_seq``; None where it is not there, or not at the expected version.

    ``rows`` are the messages, with their place in the turn as ``seq``. ``values``: ``moment`` and ``answering``, as in
    the session's row. Raises IntegrityError where the session has a message of one of their ids.
    """
    values |= {"of_session": session_id, "added": len(rows)}
    if expected is not None:
        values["seen"] = expected
    if rows and connection.dialect.name == "postgresql":
        values["rows"] = to_json(rows).decode()
        return connection.execute(
            _ADVANCE_AND_INSERT if expected is None else _ADVANCE_AND_INSERT_FROM_VERSION, values
        ).one_or_none()
    session = connection.execute(_ADVANCE if expected is None else _ADVANCE_FROM_VERSION, values).one_or_none()
    if rows and session is not None:
        first = session.next_seq - len(rows)
        connection.execute(_INSERT, [{**row, "seq": first + row["seq"]} for row in rows])
    return session
