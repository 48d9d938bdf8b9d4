"""Tool calls and the map of tool ids: the rows that a turn adds."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, bindparam, insert, select, update

from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus
from dragoman.store.columns import decode_text, encode_id, encode_optional, encode_text, to_micros
from dragoman.store.errors import ConflictError, StoreError
from dragoman.store.schema import tool_calls, tool_ids

PENDING, SUCCEEDED, FAILED, CANCELLED = "pending", "succeeded", "failed", "cancelled"

_CHUNK_SIZE = 500
"""Ids per query: databases limit the parameters of a statement."""

_ANSWER_STATEMENT = (
    update(tool_calls)
    .where(
        tool_calls.c.session_id == bindparam("of_session"),
        tool_calls.c.status == PENDING,
        tool_calls.c.id == bindparam("of_call"),
    )
    .values(
        status=bindparam("new_status"),
        result_message_id=bindparam("answer"),
        completed_at=bindparam("answered_at"),
        result_json=None,
    )
)


def save_tool_calls(
    connection: Connection, session_id: str, turn: Iterable[tuple[int, Message]], issued: Mapping[str, Any]
) -> None:
    """Write rows for the turn's calls, with their results if it has them. A result of an earlier call completes that
    call; a result without a call is in its message only.
    """
    calls: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for seq, message in turn:
        for position, block in enumerate(message.content):
            if isinstance(block, ToolUseBlock):
                calls.append(_call_row(session_id, seq, position, message, block, issued))
            elif isinstance(block, ToolResultBlock):
                answer = {
                    "of_session": session_id,
                    "of_call": encode_text(block.tool_use_id),
                    "new_status": FAILED if block.is_error else SUCCEEDED,
                    "answer": encode_id(message.id, "a message's id"),
                    "answered_at": to_micros(message.created_at),
                }
                if not _answer_pending(calls, answer):
                    answers.append(answer)
    if calls:
        connection.execute(insert(tool_calls), calls)
    if answers:
        connection.execute(_ANSWER_STATEMENT, answers)


def _call_row(
    session_id: str, seq: int, position: int, message: Message, block: ToolUseBlock, issued: Mapping[str, Any]
) -> dict[str, Any]:
    provider, provider_id = issued.get(block.id, (message.metadata.provider, None))
    is_complete = message.metadata.status is MessageStatus.COMPLETE
    return {
        "session_id": session_id,
        "seq": seq,
        "position": position,
        "id": encode_text(block.id),
        "message_id": encode_id(message.id, "a message's id"),
        "result_message_id": None,
        "name": encode_text(block.name),
        # The calls of a broken reply are never run.
        "status": PENDING if is_complete else CANCELLED,
        "provider_id": encode_optional(provider_id),
        "provider": encode_optional(provider),
        "created_at": to_micros(message.created_at),
        "completed_at": None if is_complete else to_micros(message.created_at),
    }


def _answer_pending(calls: list[dict[str, Any]], answer: Mapping[str, Any]) -> bool:
    """Whether the result belongs to a call of the same turn, which then has it."""
    for call in reversed(calls):
        if call["id"] == answer["of_call"] and call["status"] == PENDING:
            call["status"], call["result_message_id"] = answer["new_status"], answer["answer"]
            call["completed_at"] = answer["answered_at"]
            return True
    return False


def save_tool_ids(connection: Connection, session_id: str, dump: Mapping[str, Any]) -> None:
    """Add the map's new entries. Raises ConflictError if an entry differs from the table: an id that a provider has
    seen never changes.
    """
    # The key has a fixed length for texts of any length: no index takes a long one.
    rows_by_entry = {
        blake2b(to_json(entry[:3]), digest_size=16).hexdigest(): entry  # kind, provider and canonical id
        for entry in _entries(dump)
    }
    known: dict[str, str] = {}
    entries = list(rows_by_entry)
    for start in range(0, len(entries), _CHUNK_SIZE):
        chunk = entries[start : start + _CHUNK_SIZE]
        query = select(tool_ids.c.entry, tool_ids.c.provider_id)
        found = connection.execute(query.where(tool_ids.c.session_id == session_id, tool_ids.c.entry.in_(chunk)))
        known.update((row.entry, row.provider_id) for row in found)
    new = []
    for entry, (kind, provider, canonical, name) in rows_by_entry.items():
        if entry not in known:
            new.append(
                {
                    "session_id": session_id,
                    "entry": entry,
                    "kind": kind,
                    "provider": provider,
                    "canonical_id": canonical,
                    "provider_id": name,
                }
            )
        elif known[entry] != name:
            raise ConflictError(
                f"the tool id {canonical!r:.80} is stored with another native id: load the session again"
            )
    if new:
        connection.execute(insert(tool_ids), new)


def load_tool_ids(connection: Connection, session_id: str) -> dict[str, Any]:
    """Return the output of `ToolIdMap.dump`, in its order."""
    issued: dict[str, list[str]] = {}
    sent: dict[str, dict[str, str]] = {}
    stored = select(tool_ids).where(tool_ids.c.session_id == session_id).order_by(tool_ids.c.number)
    for row in connection.execute(stored):
        provider, canonical, name = (
            decode_text(row.provider),
            decode_text(row.canonical_id),
            decode_text(row.provider_id),
        )
        if row.kind == "issued":
            issued[canonical] = [provider, name]
        else:
            sent.setdefault(provider, {})[canonical] = name
    return {"issued": issued, "sent": sent}


def _entries(dump: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the entries of the map. Raises StoreError if the map is malformed."""
    try:
        for canonical, (provider, name) in dump.get("issued", {}).items():
            yield "issued", encode_text(provider), encode_text(canonical), encode_text(name)
        for provider, names in dump.get("sent", {}).items():
            for canonical, name in names.items():
                yield "sent", encode_text(provider), encode_text(canonical), encode_text(name)
    except (AttributeError, TypeError, ValueError) as error:
        raise StoreError(f"this is not a dump of a ToolIdMap: {type(error).__name__}: {error!s:.200}") from None
