"""Messages and sessions as rows of their tables."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json
from sqlalchemy import RowMapping

from dragoman.adapter import wirejson
from dragoman.canonical.evolve import read_message, write_message
from dragoman.canonical.message import SCHEMA_VERSION, Message
from dragoman.store.columns import (
    MALFORMED,
    json_object,
    json_text,
    json_value,
    key,
    micros,
    moment,
    optional,
    optional_json,
    optional_key,
    optional_plain,
    plain,
    unreadable,
)
from dragoman.store.records import SessionRecord
from dragoman.store.search import search_text

_USAGE = (
    "input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens",
    "cost_usd", "pricing_version", "latency_ms",
)  # fmt: skip


def session_row(record: SessionRecord, next_seq: int = 0) -> dict[str, Any]:
    """Raises StoreError where an id is too long, or anything is no text that can be stored."""
    return {
        "id": key(record.id, "the session's id"),
        "version": record.version,
        "next_seq": next_seq,
        "active_model": optional(record.model),
        "title": optional(record.title),
        "workspace_path": optional(record.workspace),
        "routing_policy_json": optional_json(record.routing_policy),
        "metadata_json": json_text(record.metadata),
        "user_id": optional_key(record.user_id, "the user's id"),
        "team_id": optional_key(record.team_id, "the team's id"),
        "parent_session_id": optional_key(record.parent_session_id, "the parent session's id"),
        "parent_message_id": optional_key(record.parent_message_id, "the parent message's id"),
        "schema_version": SCHEMA_VERSION,
        "created_at": micros(record.created_at),
        "updated_at": micros(record.updated_at),
    }


def session_record(row: RowMapping) -> SessionRecord:
    """Raises UnreadableError."""
    try:
        return SessionRecord(
            id=plain(row["id"]),
            version=row["version"],
            model=optional_plain(row["active_model"]),
            title=optional_plain(row["title"]),
            workspace=optional_plain(row["workspace_path"]),
            routing_policy=json_object(row["routing_policy_json"]),
            metadata=json_object(row["metadata_json"]) or {},
            user_id=optional_plain(row["user_id"]),
            team_id=optional_plain(row["team_id"]),
            parent_session_id=optional_plain(row["parent_session_id"]),
            parent_message_id=optional_plain(row["parent_message_id"]),
            created_at=moment(row["created_at"]),
            updated_at=moment(row["updated_at"]),
        )
    except MALFORMED as error:
        raise unreadable(f"the session {row['id']!r:.80}", error) from None


def attempt_row(message: Message, session_id: str, seq: int) -> dict[str, Any]:
    """The columns that messages and attempts share. ``session_id`` is the session's own id, as it is in its row."""
    raw: dict[str, Any] = from_json(write_message(message))
    content, metadata = raw.pop("content", []), raw.pop("metadata", {})
    for repeated in ("id", "role", "created_at", "schema_version"):
        raw.pop(repeated, None)
    if raw.get("session_id") in ("", plain(session_id)):
        del raw["session_id"]
    said, usage = message.metadata, message.metadata.usage
    return {
        "id": key(message.id, "a message's id"),
        "session_id": session_id,
        "seq": seq,
        "role": message.role.value,
        "content_json": wirejson.dumps_text(content),
        "metadata_json": wirejson.dumps_text(metadata),
        "fields_json": wirejson.dumps_text(raw) if raw else None,
        "created_at": micros(message.created_at),
        "schema_version": message.schema_version,
        "status": said.status.value,
        "stop_reason": None if said.stop_reason is None else said.stop_reason.value,
        "model": optional(said.model),
        "provider": optional(said.provider),
        "user_id": optional(said.user_id),
        "team_id": optional(said.team_id),
        **{name: getattr(usage, name, None) for name in _USAGE},
        "pricing_version": optional(usage.pricing_version) if usage else None,
        "cost_status": usage.cost_status.value if usage else None,
    }


def message_row(
    message: Message, session_id: str, seq: int, extensions: Mapping[str, Any] | None, *, inherited: bool = False
) -> dict[str, Any]:
    return {
        **attempt_row(message, session_id, seq),
        "extensions_json": optional_json(extensions),
        "search_text": search_text(message),
        "inherited": inherited,
    }


def message_of(row: RowMapping) -> Message:
    """The message, whatever an earlier version or another program has written. Raises UnreadableError.

    A message of no session is one of the session that holds it.
    """
    try:
        return read_message(
            {
                "session_id": plain(row["session_id"]),
                **(json_object(row["fields_json"]) or {}),
                "id": plain(row["id"]),
                "role": row["role"],
                "content": json_value(row["content_json"]),
                "metadata": json_value(row["metadata_json"]),
                "created_at": moment(row["created_at"]).isoformat(),
                "schema_version": row["schema_version"],
            }
        )
    except MALFORMED as error:
        raise unreadable(f"message {row['seq']!r:.20} of the session {row['session_id']!r:.80}", error) from None


def extensions_of(row: RowMapping) -> dict[str, Any] | None:
    """Raises UnreadableError."""
    try:
        return json_object(row["extensions_json"])
    except MALFORMED as error:
        raise unreadable(f"the extensions of message {row['seq']!r:.20}", error) from None
