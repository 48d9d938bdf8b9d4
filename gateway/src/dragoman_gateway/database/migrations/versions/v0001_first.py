"""The first tables. Written out instead of imported from `tables`: a migration never changes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MONEY = sa.Numeric().with_variant(sa.Text(), "sqlite")
_ID = sa.String(200)


def upgrade() -> None:
    counters = op.create_table(
        "gateway_counters",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(counters, [{"name": "revision", "value": 0}])
    op.create_table(
        "gateway_keys",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("old_digest", sa.String(64)),
        sa.Column("old_until", sa.BigInteger),
        sa.Column("user_id", _ID),
        sa.Column("team_id", _ID),
        sa.Column("fields_json", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_keys_by_revision", "gateway_keys", ["revision"])
    op.create_table(
        "gateway_allowances",
        sa.Column("scope", _ID, primary_key=True),
        sa.Column("fields_json", sa.Text),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_allowances_by_revision", "gateway_allowances", ["revision"])
    op.create_table(
        "gateway_spend",
        sa.Column("scope", _ID, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("usd", _MONEY, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", "day", name="gateway_spend_once"),
    )
    op.create_table(
        "gateway_reservations",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("scope", _ID, nullable=False),
        sa.Column("usd", _MONEY, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", "scope", name="gateway_reservations_once"),
    )
    op.create_index("gateway_reservations_by_scope", "gateway_reservations", ["scope"])
    op.create_table(
        "gateway_responses",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner", _ID, nullable=False),
        sa.Column("previous_id", _ID),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("background", sa.Boolean, nullable=False),
        sa.Column("streamed", sa.Boolean, nullable=False),
        sa.Column("input_json", sa.Text, nullable=False),
        sa.Column("response_json", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("alive_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_responses_by_expiry", "gateway_responses", ["expires_at"])
    op.create_table(
        "gateway_response_events",
        sa.Column("response_id", _ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("response_id", "number", name="gateway_response_events_in_order"),
    )
    op.create_table(
        "gateway_response_items",
        sa.Column("owner", _ID, nullable=False),
        sa.Column("item_id", _ID, nullable=False),
        sa.Column("response_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("owner", "item_id", name="gateway_response_items_once"),
    )
    op.create_index("gateway_response_items_by_response", "gateway_response_items", ["response_id"])
    op.create_table(
        "gateway_owners",
        sa.Column("id", _ID, primary_key=True),
        sa.Column("owner", _ID, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_owners_by_expiry", "gateway_owners", ["expires_at"])
    op.create_table(
        "gateway_call_state",
        sa.Column("key", _ID, primary_key=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("gateway_call_state_by_expiry", "gateway_call_state", ["expires_at"])
