"""The first tables. Written out instead of imported from `schema`: a migration never changes."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import OperationalError

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_MONEY = sa.Numeric().with_variant(sa.Text(), "sqlite")
_ID = sa.String(200)


def upgrade() -> None:
    _sessions()
    op.create_table(
        "messages",
        *_message_columns(),
        sa.Column("extensions_json", sa.Text),
        sa.Column("search_text", sa.Text),
        sa.Column("inherited", sa.Boolean, nullable=False),
        sa.UniqueConstraint("session_id", "seq", name="messages_in_order"),
        sa.UniqueConstraint("session_id", "id", name="messages_once"),
    )
    op.create_index("messages_by_time", "messages", ["session_id", "created_at"])
    op.create_table("attempts", *_message_columns(), sa.UniqueConstraint("session_id", "seq", name="attempts_in_order"))
    _tools()
    if op.get_bind().dialect.name == "sqlite":
        _search()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("next_seq", sa.BigInteger, nullable=False),
        sa.Column("active_model", sa.Text),
        sa.Column("title", sa.Text),
        sa.Column("workspace_path", sa.Text),
        sa.Column("routing_policy_json", sa.Text),
        sa.Column("metadata_json", sa.Text),
        sa.Column("user_id", _ID),
        sa.Column("team_id", _ID),
        sa.Column("parent_session_id", _ID),
        sa.Column("parent_message_id", _ID),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_index("sessions_by_update", "sessions", ["updated_at", "id"])
    op.create_index("sessions_by_user", "sessions", ["user_id", "updated_at"])


def _of_session() -> sa.Column[Any]:
    return sa.Column("session_id", _ID, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False)


def _message_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("id", _ID, nullable=False),
        _of_session(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("role", "content_json", "metadata_json")),
        sa.Column("fields_json", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("stop_reason", "model", "provider", "user_id", "team_id")),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("cached_input_tokens", sa.BigInteger),
        sa.Column("cache_creation_input_tokens", sa.BigInteger),
        sa.Column("reasoning_tokens", sa.BigInteger),
        sa.Column("cost_usd", _MONEY),
        sa.Column("cost_status", sa.Text),
        sa.Column("pricing_version", sa.Text),
        sa.Column("latency_ms", sa.BigInteger),
    ]  # fmt: skip


def _tools() -> None:
    op.create_table(
        "tool_calls",
        _of_session(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("message_id", _ID, nullable=False),
        sa.Column("result_message_id", _ID),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("provider_id", sa.Text),
        sa.Column("provider", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("completed_at", sa.BigInteger),
        sa.UniqueConstraint("session_id", "seq", "position", name="tool_calls_in_order"),
    )
    op.create_index("tool_calls_by_status", "tool_calls", ["session_id", "status"])
    op.create_table(
        "tool_ids",
        sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
        _of_session(),
        sa.Column("entry", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(6), nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("canonical_id", sa.Text, nullable=False),
        sa.Column("provider_id", sa.Text, nullable=False),
        sa.UniqueConstraint("session_id", "entry", name="tool_ids_once"),
    )


def _search() -> None:
    """A trigram index, maintained by triggers. Without FTS5 there is none, and a search reads every text."""
    connection = op.get_bind()
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(
                "CREATE VIRTUAL TABLE message_search USING fts5(search_text, content='messages',"
                " content_rowid='number', tokenize='trigram case_sensitive 1', detail='none')"
            )
    except OperationalError:
        return
    connection.exec_driver_sql(
        "CREATE TRIGGER message_search_insert AFTER INSERT ON messages BEGIN"
        " INSERT INTO message_search(rowid, search_text) VALUES (new.number, new.search_text); END"
    )
    connection.exec_driver_sql(
        "CREATE TRIGGER message_search_delete AFTER DELETE ON messages BEGIN"
        " INSERT INTO message_search(message_search, rowid, search_text)"
        " VALUES ('delete', old.number, old.search_text); END"
    )
