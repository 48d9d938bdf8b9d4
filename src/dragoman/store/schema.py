"""The tables (docs/reference/canonical.md#tables), as the newest migration leaves them.

Every time is an integer: microseconds since 1970 in UTC. JSON is stored as text, exactly as written: a database's own
JSON type would reorder keys and refuse U+0000. Columns that repeat a part of the JSON serve reports and searches only;
reading a message uses the JSON, the id, the role and the time.

Every key begins with the session's id, so that a cluster can keep each session on one of its machines. On SQLite the
rows of some tables also have numbers, because its full-text index needs them, and the keys are UNIQUE. Only the search
uses these numbers.
"""

from typing import Any

import sqlalchemy as sa

from dragoman.sql import MAX_ID, ExactDecimal

HEAD = "0004"
"""The newest migration. Migrations are numbered, so that an older version of this library recognizes a newer store."""

VERSION_TABLE = "dragoman_version"
SEARCH_TABLE = "message_search"
"""SQLite's full-text index over messages.search_text. There is none on PostgreSQL, nor on SQLite without FTS5."""
Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""SQLite autoincrements only the type INTEGER."""

METADATA_TEXTS = ("model", "provider", "user_id", "team_id")
"""Fields of a message's metadata that are columns."""
USAGE_TOKENS = (
    "input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens",
)  # fmt: skip
"""Counts of a message's usage that are columns."""

metadata = sa.MetaData()

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.String(MAX_ID), primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("next_seq", sa.BigInteger, nullable=False),
    sa.Column("active_model", sa.Text),
    sa.Column("title", sa.Text),
    sa.Column("workspace_path", sa.Text),
    sa.Column("routing_policy_json", sa.Text),
    sa.Column("metadata_json", sa.Text),
    sa.Column("user_id", sa.String(MAX_ID)),
    sa.Column("team_id", sa.String(MAX_ID)),
    sa.Column("parent_session_id", sa.String(MAX_ID)),
    sa.Column("parent_message_id", sa.String(MAX_ID)),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Index("sessions_by_update", "updated_at", "id"),
    sa.Index("sessions_by_user", "user_id", "updated_at"),
)


def _of_session() -> sa.Column[str]:
    return sa.Column("session_id", sa.String(MAX_ID), sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False)


def _of_message(column: str, name: str) -> sa.ForeignKeyConstraint:
    """Deferred: a message that is replaced is deleted and inserted in one transaction."""
    return sa.ForeignKeyConstraint(
        ["session_id", column], ["messages.session_id", "messages.id"], name=name, deferrable=True, initially="DEFERRED"
    )


def _message_columns() -> list[sa.Column[Any]]:
    """Return the columns that messages and attempts share."""
    return [
        sa.Column("id", sa.String(MAX_ID), nullable=False),
        _of_session(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("content_json", sa.Text, nullable=False),
        sa.Column("metadata_json", sa.Text, nullable=False),
        sa.Column("fields_json", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("stop_reason", sa.Text),
        *(sa.Column(name, sa.Text) for name in METADATA_TEXTS),
        *(sa.Column(name, sa.BigInteger) for name in USAGE_TOKENS),
        sa.Column("cost_usd", ExactDecimal),
        sa.Column("cost_status", sa.Text),
        sa.Column("pricing_version", sa.Text),
        sa.Column("latency_ms", sa.BigInteger),
    ]


messages = sa.Table(
    "messages",
    metadata,
    *_message_columns(),
    sa.Column("extensions_json", sa.Text),
    sa.Column("search_text", sa.Text),
    sa.Column("inherited", sa.Boolean, nullable=False),
    sa.PrimaryKeyConstraint("session_id", "seq", name="messages_in_order"),
    sa.UniqueConstraint("session_id", "id", name="messages_once"),
    sa.Index("messages_by_time", "session_id", "created_at"),
)
"""``seq`` counts from 0 without a gap. ``inherited``: a fork's copy, which its first session was billed for.
``fields_json`` has the message's other fields. ``search_text`` is folded (see `rows.fold`).
"""

attempts = sa.Table(
    "attempts", metadata, *_message_columns(), sa.PrimaryKeyConstraint("session_id", "seq", name="attempts_in_order")
)
"""Replies that broke and were billed; not part of the history. ``seq`` counts attempts only."""

tool_calls = sa.Table(
    "tool_calls",
    metadata,
    _of_session(),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("message_id", sa.String(MAX_ID), nullable=False),
    sa.Column("result_message_id", sa.String(MAX_ID)),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("provider_id", sa.Text),
    sa.Column("provider", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("completed_at", sa.BigInteger),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("side_effects", sa.Text),
    sa.Column("result_json", sa.Text),
    sa.PrimaryKeyConstraint("session_id", "seq", "position", name="tool_calls_in_order"),
    _of_message("message_id", "tool_calls_of_reply"),
    _of_message("result_message_id", "tool_calls_with_result"),
    sa.Index("tool_calls_by_status", "session_id", "status"),
    # The calls of these are few.
    *(
        sa.Index(f"tool_calls_{status}", "session_id", "created_at", sqlite_where=condition, postgresql_where=condition)
        for status, condition in ((each, sa.text(f"status = '{each}'")) for each in ("pending", "failed"))
    ),
)
"""One row per call: the block at ``position`` of the assistant's message ``seq``. A history from elsewhere may use an
id twice, so ``id`` is not a key.

A pending call with ``started_at`` may have run. With ``completed_at`` it has ended: ``result_json`` is its result,
which is not in the history yet, or the result comes from elsewhere.
"""

turns = sa.Table(
    "turns",
    metadata,
    _of_session(),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("error", sa.Text),
    sa.Column("prompt_json", sa.Text, nullable=False),
    sa.Column("attempts_json", sa.Text, nullable=False),
    sa.Column("first_seq", sa.BigInteger, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("session_id", "number", name="turns_in_order"),
)
"""Turns that are open or failed; a turn that is done has no row. ``number`` is the version that began the turn, and its
messages are those from ``first_seq`` on. A session has at most one open turn. ``prompt_json`` has the messages that the
model was asked, ``attempts_json`` the requests that failed.
"""

tool_ids = sa.Table(
    "tool_ids",
    metadata,
    sa.Column("number", Number, nullable=False),
    _of_session(),
    sa.Column("entry", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(6), nullable=False),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("canonical_id", sa.Text, nullable=False),
    sa.Column("provider_id", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("session_id", "entry", name="tool_ids_once"),
)
"""The session's map of tool ids, in the order of ``number``, which the database increments. ``kind`` is issued (that
provider's own id) or sent (the id that the provider was sent); ``entry`` is a digest of kind, provider and canonical
id.
"""


retention_records = sa.Table(
    "retention_records",
    metadata,
    sa.Column("session_id", sa.String(MAX_ID), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("messages", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.BigInteger, nullable=False),
    sa.Column("sources_json", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("session_id", "seq", name="retention_records_in_order"),
)
"""What was redacted or deleted because its time was over. A record outlives its session, so it refers to none."""


def distribution_column(table: sa.Table) -> str:
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
