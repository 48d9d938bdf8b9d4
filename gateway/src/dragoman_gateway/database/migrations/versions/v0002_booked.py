"""The batches of spend that are stored."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "gateway_booked",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("booked_at", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_booked_by_time", "gateway_booked", ["booked_at"])
