"""The part of spend that is an estimate. Older versions, which do not know the column, continue to add rows without
it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_MONEY = sa.Numeric().with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.add_column("gateway_spend", sa.Column("estimated_usd", _MONEY, nullable=False, server_default="0"))
