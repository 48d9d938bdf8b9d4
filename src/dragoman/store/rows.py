"""Converts messages and sessions to rows of their tables and back.

A row has the text of its message for searches. It is folded here, as every query is, and not by the database, so that
every database finds the same: a hit contains the query literally, in any script, ignoring case.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import SCHEMA_VERSION, Message, read_message, write_message
from dragoman.store import columns
from dragoman.store.records import SessionRecord
from dragoman.store.schema import METADATA_TEXTS, USAGE_TOKENS

_TEXTS = {"active_model": "model", "title": "title", "workspace_path": "workspace"}
"""The texts of a session by column, each with its field."""
_IDS = {
    "user_id": "the user's id",
    "team_id": "the team's id",
    "parent_session_id": "the parent session's id",
    "parent_message_id": "the parent message's id",
}
"""The optional ids of a session, as errors name them. Each is a column and a field."""


def session_row(record: SessionRecord, next_seq: int = 0) -> dict[str, Any]:
    """Return the row of a session. Raises StoreError if an id is too long, or a text cannot be stored."""
    return {
        "id": columns.encode_id(record.id, "the session's id"),
        "version": record.version,
        "next_seq": next_seq,
        **{column: columns.encode_optional(getattr(record, field)) for column, field in _TEXTS.items()},
        "routing_policy_json": columns.encode_optional_json(record.routing_policy),
        "metadata_json": columns.encode_json(record.metadata),
        **{name: columns.encode_optional_id(getattr(record, name), what) for name, what in _IDS.items()},
        "schema_version": SCHEMA_VERSION,
        "created_at": columns.to_micros(record.created_at),
        "updated_at": columns.to_micros(record.updated_at),
    }


def record_from_row(row: sa.RowMapping) -> SessionRecord:
    """Return the session of a row. Raises UnreadableError."""
    try:
        return SessionRecord(
            id=columns.decode_text(row["id"]),
            version=row["version"],
            routing_policy=columns.decode_json_object(row["routing_policy_json"]),
            metadata=columns.decode_json_object(row["metadata_json"]) or {},
            created_at=columns.from_micros(row["created_at"]),
            updated_at=columns.from_micros(row["updated_at"]),
            **{field: columns.decode_optional(row[column]) for column, field in _TEXTS.items()},
            **{name: columns.decode_optional(row[name]) for name in _IDS},
        )
    except columns.MALFORMED_DATA_ERRORS as error:
        raise columns.unreadable_error(f"the session {row['id']!r:.80}", error) from None


def attempt_row(message: Message, session_id: str, seq: int) -> dict[str, Any]:
    """Return the columns that messages and attempts share. ``session_id`` is the encoded id of the session's row."""
    raw: dict[str, Any] = from_json(write_message(message))
    content, metadata = raw.pop("content", []), raw.pop("metadata", {})
    for repeated in ("id", "role", "created_at", "schema_version"):
        raw.pop(repeated, None)
    if raw.get("session_id") in ("", columns.decode_text(session_id)):
        del raw["session_id"]
    message_metadata, usage = message.metadata, message.metadata.usage
    return {
        "id": columns.encode_id(message.id, "a message's id"),
        "session_id": session_id,
        "seq": seq,
        "role": message.role.value,
        "content_json": wirejson.dumps_text(content),
        "metadata_json": wirejson.dumps_text(metadata),
        "fields_json": wirejson.dumps_text(raw) if raw else None,
        "created_at": columns.to_micros(message.created_at),
        "schema_version": message.schema_version,
        "status": message_metadata.status.value,
        "stop_reason": None if message_metadata.stop_reason is None else message_metadata.stop_reason.value,
        **{name: columns.encode_optional(getattr(message_metadata, name)) for name in METADATA_TEXTS},
        **{name: getattr(usage, name, None) for name in (*USAGE_TOKENS, "cost_usd", "latency_ms")},
        "pricing_version": columns.encode_optional(usage.pricing_version) if usage else None,
        "cost_status": usage.cost_status.value if usage else None,
    }


def message_row(
    message: Message, session_id: str, seq: int, extensions: Mapping[str, Any] | None, *, inherited: bool = False
) -> dict[str, Any]:
    return {
        **attempt_row(message, session_id, seq),
        "extensions_json": columns.encode_optional_json(extensions),
        "search_text": "\n".join(fold(part) for part in _texts(message.content)) or None,
        "inherited": inherited,
    }


def message_from_row(row: sa.RowMapping) -> Message:
    """Return the message, whatever an earlier version or another program wrote. Raises UnreadableError.

    A message without a session belongs to the session that contains it.
    """
    try:
        return read_message(
            {
                "session_id": columns.decode_text(row["session_id"]),
                **(columns.decode_json_object(row["fields_json"]) or {}),
                "id": columns.decode_text(row["id"]),
                "role": row["role"],
                "content": columns.decode_json(row["content_json"]),
                "metadata": columns.decode_json(row["metadata_json"]),
                "created_at": columns.from_micros(row["created_at"]).isoformat(),
                "schema_version": row["schema_version"],
            }
        )
    except columns.MALFORMED_DATA_ERRORS as error:
        raise columns.unreadable_error(
            f"message {row['seq']!r:.20} of the session {row['session_id']!r:.80}", error
        ) from None


def extensions_from_row(row: sa.RowMapping) -> dict[str, Any] | None:
    """Return the extensions of a row. Raises UnreadableError."""
    try:
        return columns.decode_json_object(row["extensions_json"])
    except columns.MALFORMED_DATA_ERRORS as error:
        raise columns.unreadable_error(f"the extensions of message {row['seq']!r:.20}", error) from None


def fold(value: str) -> str:
    """Return the text without differences of case and of form (NFKC)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", value).casefold()).replace("\0", " ")


def _texts(content: Iterable[ContentBlock]) -> Iterable[str]:
    """Yield the text of text blocks, including those of tool results."""
    for block in content:
        if isinstance(block, TextBlock):
            yield block.text
        elif isinstance(block, ToolResultBlock):
            yield from _texts(block.content)
