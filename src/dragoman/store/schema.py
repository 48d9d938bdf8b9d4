"""The tables (docs/reference/canonical.md#tables), as the newest migration leaves them.

Every time is an integer: microseconds since 1970 in UTC. JSON is stored as text, exactly as written: a database's own
JSON type would reorder keys and refuse U+0000. Columns that repeat a part of the JSON serve reports and searches only;
reading a message uses the JSON, the id, the role and the time.

Every key begins with the session's id, so that a cluster can keep each session on one of its machines. On SQLite the
rows of some tables also have numbers, because its full-text index needs them, and the keys are UNIQUE. Only the search
uses these numbers.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from dragoman.sql import MAX_ID, ExactDecimal

HEAD = "0004"
"""The newest migration. Migrations are numbered, so that an older version of this library recognizes a newer store."""

VERSION_TABLE = "dragoman_version"
SEARCH_TABLE = "message_search"
"""SQLite's full-text index over messages.search_text. There is none on PostgreSQL, nor on SQLite without FTS5."""
Number = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite autoincrements only the type INTEGER."""

METADATA_TEXTS = ("model", "provider", "user_id", "team_id")
"""Fields of a message's metadata that are columns."""
USAGE_COUNTS = (
    "input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens",
    "latency_ms",
)  # fmt: skip
"""Numbers of a message's usage that are columns."""

metadata = MetaData()

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(MAX_ID), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("next_seq", BigInteger, nullable=False),
    Column("active_model", Text),
    Column("title", Text),
    Column("workspace_path", Text),
    Column("routing_policy_json", Text),
    Column("metadata_json", Text),
    Column("user_id", String(MAX_ID)),
    Column("team_id", String(MAX_ID)),
    Column("parent_session_id", String(MAX_ID)),
    Column("parent_message_id", String(MAX_ID)),
    Column("schema_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Index("sessions_by_update", "updated_at", "id"),
    Index("sessions_by_user", "user_id", "updated_at"),
)


def _of_session() -> Column[str]:
    return Column("session_id", String(MAX_ID), ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False)


def _of_message(column: str, name: str) -> ForeignKeyConstraint:
    """Deferred: a message that is replaced is deleted and inserted in one transaction."""
    return ForeignKeyConstraint(
        ["session_id", column], ["messages.session_id", "messages.id"], name=name, deferrable=True, initially="DEFERRED"
    )


def _message_columns() -> list[Column[Any]]:
    """Return the columns that messages and attempts share."""
    return [
        Column("id", String(MAX_ID), nullable=False),
        _of_session(),
        Column("seq", BigInteger, nullable=False),
        Column("role", Text, nullable=False),
        Column("content_json", Text, nullable=False),
        Column("metadata_json", Text, nullable=False),
        Column("fields_json", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("schema_version", Integer, nullable=False),
        Column("status", Text, nullable=False),
        Column("stop_reason", Text),
        *(Column(name, Text) for name in METADATA_TEXTS),
        *(Column(name, BigInteger) for name in USAGE_COUNTS),
        Column("cost_usd", ExactDecimal),
        Column("cost_status", Text),
        Column("pricing_version", Text),
    ]


messages = Table(
    "messages",
    metadata,
    *_message_columns(),
    Column("extensions_json", Text),
    Column("search_text", Text),
    Column("inherited", Boolean, nullable=False),
    PrimaryKeyConstraint("session_id", "seq", name="messages_in_order"),
    UniqueConstraint("session_id", "id", name="messages_once"),
    Index("messages_by_time", "session_id", "created_at"),
)
"""``seq`` counts from 0 without a gap. ``inherited``: a fork's copy, which its first session was billed for.
``fields_json`` has the message's other fields. ``search_text`` is folded (see `rows.fold`).
"""

attempts = Table(
    "attempts", metadata, *_message_columns(), PrimaryKeyConstraint("session_id", "seq", name="attempts_in_order")
)
"""Replies that broke and were billed; not part of the history. ``seq`` counts attempts only."""

tool_calls = Table(
    "tool_calls",
    metadata,
    _of_session(),
    Column("seq", BigInteger, nullable=False),
    Column("position", Integer, nullable=False),
    Column("id", Text, nullable=False),
    Column("message_id", String(MAX_ID), nullable=False),
    Column("result_message_id", String(MAX_ID)),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("provider_id", Text),
    Column("provider", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("completed_at", BigInteger),
    Column("started_at", BigInteger),
    Column("side_effects", Text),
    Column("result_json", Text),
    PrimaryKeyConstraint("session_id", "seq", "position", name="tool_calls_in_order"),
    _of_message("message_id", "tool_calls_of_reply"),
    _of_message("result_message_id", "tool_calls_with_result"),
    Index("tool_calls_by_status", "session_id", "status"),
    # The calls of these are few.
    *(
        Index(f"tool_calls_{status}", "session_id", "created_at", sqlite_where=condition, postgresql_where=condition)
        for status, condition in ((each, text(f"status = '{each}'")) for each in ("pending", "failed"))
    ),
)
"""One row per call: the block at ``position`` of the assistant's message ``seq``. A history from elsewhere may use an
id twice, so ``id`` is not a key.

A pending call with ``started_at`` may have run. With ``completed_at`` it has ended: ``result_json`` is its result,
which is not in the history yet, or the result comes from elsewhere.
"""

turns = Table(
    "turns",
    metadata,
    _of_session(),
    Column("number", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text),
    Column("prompt_json", Text, nullable=False),
    Column("attempts_json", Text, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("user_id", Text),
    Column("schema_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("session_id", "number", name="turns_in_order"),
)
"""Turns that are open or failed; a turn that is done has no row. ``number`` is the version that began the turn, and its
messages are those from ``first_seq`` on. A session has at most one open turn. ``prompt_json`` has the messages that the
model was asked, ``attempts_json`` the requests that failed.
"""

tool_ids = Table(
    "tool_ids",
    metadata,
    Column("number", Number, nullable=False),
    _of_session(),
    Column("entry", String(32), nullable=False),
    Column("kind", String(6), nullable=False),
    Column("provider", Text, nullable=False),
    Column("canonical_id", Text, nullable=False),
    Column("provider_id", Text, nullable=False),
    PrimaryKeyConstraint("session_id", "entry", name="tool_ids_once"),
)
"""The session's map of tool ids, in the order of ``number``, which the database increments. ``kind`` is issued (that
provider's own id) or sent (the id that the provider was sent); ``entry`` is a digest of kind, provider and canonical
id.
"""


retention_records = Table(
    "retention_records",
    metadata,
    Column("session_id", String(MAX_ID), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("sources_json", Text, nullable=False),
    PrimaryKeyConstraint("session_id", "seq", name="retention_records_in_order"),
)
"""What was redacted or deleted because its time was over. A record outlives its session, so it refers to none."""


def distribution_column(table: Table) -> str:
    """Return the distribution column of a table: the session's id, so that a session's rows are on one machine."""
    return "id" if table is sessions else "session_id"


def citus_statements() -> tuple[str, ...]:
    """Return the statements that distribute the store's tables over a Citus cluster, in the required order: the
    sessions first, then each other table together with its sessions' rows, so that foreign keys hold.

    Run them once, on the coordinator, after a `Store` has created the tables; existing rows are moved. The version
    table is not distributed. Each table's keys begin with the session's id, as Citus requires.
    """
    others = [table for table in metadata.sorted_tables if table is not sessions]
    return (
        f"SELECT create_distributed_table('{sessions.name}', '{distribution_column(sessions)}')",
        *(
            f"SELECT create_distributed_table('{table.name}', '{distribution_column(table)}', colocate_with "
            f"=> '{sessions.name}')"
            for table in others
        ),
    )
