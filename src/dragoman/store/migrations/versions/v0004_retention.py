"""A table for the records of data that was redacted or deleted because its time was over."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "retention_records",
        sa.Column("session_id", sa.String(200), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("sources_json", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "seq", name="retention_records_in_order"),
    )
