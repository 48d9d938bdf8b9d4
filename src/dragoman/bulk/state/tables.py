"""The tables of a manifest. Every key begins with the run, so that one database can hold many."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, PrimaryKeyConstraint, String, Table, Text

from dragoman.sql import MAX_ID, ExactDecimal

VERSION = 1
"""The version of these tables. A newer one is refused."""

metadata = MetaData()

runs = Table(
    "bulk_runs",
    metadata,
    Column("run_no", Integer, primary_key=True, autoincrement=True),
    Column("name", String(MAX_ID), nullable=False, unique=True),
    Column("version", Integer, nullable=False),
    Column("asked", Text, nullable=False),
    Column("models", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
"""``asked`` is the run's configuration; ``models`` is a list, and a model's number is its index."""


def _row_columns() -> tuple[Column[int], ...]:
    names = (("run_no", Integer), ("model_no", Integer), ("row_no", BigInteger))
    return tuple(Column(name, kind, nullable=False, autoincrement=False) for name, kind in names)


answers = Table(
    "bulk_answers",
    metadata,
    *_row_columns(),
    Column("state", String(10), nullable=False),
    Column("digest", String(16), nullable=False),
    Column("sent_at", BigInteger, nullable=False),
    Column("estimate_usd", ExactDecimal),
    Column("answer", Text),
    Column("alike", String(16)),
    Column("error", Text),
    Column("error_class", String(80)),
    Column("retryable", Boolean),
    Column("cost_usd", ExactDecimal),
    Column("cost_status", String(10)),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("cached_input_tokens", BigInteger),
    Column("cache_creation_input_tokens", BigInteger),
    Column("ms", BigInteger),
    Column("tries", Integer),
    Column("labels", Text),
    PrimaryKeyConstraint("run_no", "model_no", "row_no", name="bulk_answers_in_order"),
    Index("bulk_answers_by_state", "run_no", "model_no", "state"),
)
"""``labels`` are the security labels of the row and its answer, as a list; null if an older version wrote the row."""
"""One row per row and model, written before its request is sent."""

lost_requests = Table(
    "bulk_lost",
    metadata,
    *_row_columns(),
    Column("sent_at", BigInteger, nullable=False),
    Column("why", String(10), nullable=False),
    Column("estimate_usd", ExactDecimal),
    PrimaryKeyConstraint("run_no", "model_no", "row_no", "sent_at", name="bulk_lost_in_order"),
)
"""Requests that may have been billed without an answer. Their rows were, or will be, sent again."""

batches = Table(
    "bulk_batches",
    metadata,
    Column("run_no", Integer, nullable=False),
    Column("model_no", Integer, nullable=False),
    Column("batch_no", Integer, nullable=False),
    Column("handle", Text, nullable=False),
    Column("fetched", Boolean, nullable=False),
    PrimaryKeyConstraint("run_no", "model_no", "batch_no", name="bulk_batches_in_order"),
)
