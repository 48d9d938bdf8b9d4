"""The tables, as the newest migration leaves them. Every time is an integer: microseconds since 1970 in UTC."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from dragoman.sql import MAX_ID, ExactDecimal

HEAD = "0003"
"""The newest migration. Migrations add: a version of the gateway that knows fewer of them continues to work."""

OLDEST = "oldest"
"""The counter with the number of the oldest migration whose version may still use the database. A migration that
changes or removes what that version reads sets it; without it, every version may."""

VERSION_TABLE = "gateway_version"


metadata = MetaData()

counters = Table(
    "gateway_counters",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""``revision`` counts the changes of keys and allowances. A change takes the next number in its own transaction, so
numbers become visible in their order."""

keys = Table(
    "gateway_keys",
    metadata,
    Column("id", String(MAX_ID), primary_key=True),
    Column("name", Text),
    Column("digest", String(64), nullable=False),
    Column("old_digest", String(64)),
    Column("old_until", BigInteger),
    Column("user_id", String(MAX_ID)),
    Column("team_id", String(MAX_ID)),
    Column("fields_json", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("revision", BigInteger, nullable=False),
    Index("gateway_keys_by_revision", "revision"),
)
"""``digest`` is the SHA-256 of the secret, in hexadecimal. ``old_digest`` is that of the secret before the last
rotation, which works until ``old_until``."""

allowances = Table(
    "gateway_allowances",
    metadata,
    Column("scope", String(MAX_ID), primary_key=True),
    Column("fields_json", Text),
    Column("revision", BigInteger, nullable=False),
    Index("gateway_allowances_by_revision", "revision"),
)
"""The budgets and limits of users and teams. ``fields_json`` is NULL if they were removed."""

spend = Table(
    "gateway_spend",
    metadata,
    Column("scope", String(MAX_ID), nullable=False),
    Column("day", Integer, nullable=False),
    Column("usd", ExactDecimal, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("estimated_usd", ExactDecimal, nullable=False, server_default="0"),
    PrimaryKeyConstraint("scope", "day", name="gateway_spend_once"),
)
"""What each key, user and team spent on each day of UTC, counted from 1970, and the part of it that is an estimate. The
row of the day 0 holds no spend: it is locked while a reservation is made."""

reservations = Table(
    "gateway_reservations",
    metadata,
    Column("id", String(40), nullable=False),
    Column("scope", String(MAX_ID), nullable=False),
    Column("usd", ExactDecimal, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("id", "scope", name="gateway_reservations_once"),
    Index("gateway_reservations_by_scope", "scope"),
)
"""The maximum spend of requests in flight. A replica that crashed does not renew its rows, and they expire."""

booked = Table(
    "gateway_booked",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("booked_at", BigInteger, nullable=False),
    Index("gateway_booked_by_time", "booked_at"),
)
"""The batches of spend that are stored. A replica that got no answer tries the same batch again."""

responses = Table(
    "gateway_responses",
    metadata,
    Column("id", String(MAX_ID), primary_key=True),
    Column("owner", String(MAX_ID), nullable=False),
    Column("previous_id", String(MAX_ID)),
    Column("status", String(20), nullable=False),
    Column("background", Boolean, nullable=False),
    Column("streamed", Boolean, nullable=False),
    Column("input_json", Text, nullable=False),
    Column("response_json", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("alive_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("gateway_responses_by_expiry", "expires_at"),
)
"""``input_json`` has the items of this turn alone. ``alive_at`` is renewed by the replica that runs a background
response."""

response_events = Table(
    "gateway_response_events",
    metadata,
    Column("response_id", String(MAX_ID), nullable=False),
    Column("number", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("response_id", "number", name="gateway_response_events_in_order"),
)
"""The events of a background response that is streamed, as they are sent."""

response_items = Table(
    "gateway_response_items",
    metadata,
    Column("owner", String(MAX_ID), nullable=False),
    Column("item_id", String(MAX_ID), nullable=False),
    Column("response_id", String(MAX_ID), nullable=False),
    PrimaryKeyConstraint("owner", "item_id", name="gateway_response_items_once"),
    Index("gateway_response_items_by_response", "response_id"),
)
"""The items of stored responses, which a client may name instead of repeating them."""

owners = Table(
    "gateway_owners",
    metadata,
    Column("id", String(MAX_ID), primary_key=True),
    Column("owner", String(MAX_ID), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("gateway_owners_by_expiry", "expires_at"),
)
"""The key that made a file, a container, a conversation or a response of a provider."""

call_state = Table(
    "gateway_call_state",
    metadata,
    Column("key", String(MAX_ID), primary_key=True),
    Column("state", LargeBinary, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("gateway_call_state_by_expiry", "expires_at"),
)
"""State of providers by tool call, for clients whose wire has no field for it."""
