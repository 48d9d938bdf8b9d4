"""The rows that a turn adds besides its messages: tool calls, the map of tool ids, and open or failed turns."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter
from pydantic_core import to_json

from dragoman.adapter import wirejson
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions.security import RETENTION
from dragoman.canonical.message import SCHEMA_VERSION, Message, MessageStatus, Role, read_message, write_message
from dragoman.open_turns import CallProgress, FailedAttempt, OpenTurn, TurnStep
from dragoman.store import columns
from dragoman.store.errors import ConflictError, StoreError
from dragoman.store.records import StoredCall
from dragoman.store.schema import tool_calls, tool_ids, turns

PENDING, SUCCEEDED, FAILED, CANCELLED = "pending", "succeeded", "failed", "cancelled"

_ATTEMPTS = TypeAdapter(tuple[FailedAttempt, ...])
_CHUNK_SIZE = 500
"""Ids per query: databases limit the parameters of a statement."""

# Built once: building a statement takes as long as running it.
_PENDING_CALL = sa.update(tool_calls).where(
    tool_calls.c.session_id == sa.bindparam("of_session"),
    tool_calls.c.status == PENDING,
    tool_calls.c.id == sa.bindparam("of_call"),
)
_START = _PENDING_CALL.values(
    started_at=sa.bindparam("moment"), side_effects=sa.bindparam("effects"), completed_at=None, result_json=None
)
_END = _PENDING_CALL.values(completed_at=sa.bindparam("moment"), result_json=sa.bindparam("result"))
_ANSWER = _PENDING_CALL.values(
    status=sa.bindparam("new_status"),
    result_message_id=sa.bindparam("answer"),
    completed_at=sa.bindparam("answered_at"),
    result_json=None,
)


def save_tool_calls(
    connection: sa.Connection, session_id: str, turn: Iterable[tuple[int, Message]], issued: Mapping[str, Any]
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
                    "of_call": columns.encode_text(block.tool_use_id),
                    "new_status": FAILED if block.is_error else SUCCEEDED,
                    "answer": columns.encode_id(message.id, "a message's id"),
                    "answered_at": columns.to_micros(message.created_at),
                }
                for call in reversed(calls):  # a call of the same turn has its result at once
                    if call["id"] == answer["of_call"] and call["status"] == PENDING:
                        call["status"], call["result_message_id"] = answer["new_status"], answer["answer"]
                        call["completed_at"] = answer["answered_at"]
                        break
                else:
                    answers.append(answer)
    if calls:
        connection.execute(sa.insert(tool_calls), calls)
    if answers:
        connection.execute(_ANSWER, answers)


def _call_row(
    session_id: str, seq: int, position: int, message: Message, block: ToolUseBlock, issued: Mapping[str, Any]
) -> dict[str, Any]:
    provider, provider_id = issued.get(block.id, (message.metadata.provider, None))
    is_complete = message.metadata.status is MessageStatus.COMPLETE
    return {
        "session_id": session_id,
        "seq": seq,
        "position": position,
        "id": columns.encode_text(block.id),
        "message_id": columns.encode_id(message.id, "a message's id"),
        "result_message_id": None,
        "name": columns.encode_text(block.name),
        # The calls of a broken reply are never run.
        "status": PENDING if is_complete else CANCELLED,
        "provider_id": columns.encode_optional(provider_id),
        "provider": columns.encode_optional(provider),
        "created_at": columns.to_micros(message.created_at),
        "completed_at": None if is_complete else columns.to_micros(message.created_at),
    }


def save_tool_ids(connection: sa.Connection, session_id: str, dump: Mapping[str, Any]) -> None:
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
        query = sa.select(tool_ids.c.entry, tool_ids.c.provider_id)
        found = connection.execute(query.where(tool_ids.c.session_id == session_id, tool_ids.c.entry.in_(chunk)))
        known.update((row.entry, row.provider_id) for row in found)
    new = []
    for entry, values in rows_by_entry.items():
        row = dict(zip(_ENTRY, values, strict=True))
        if entry not in known:
            new.append({"session_id": session_id, "entry": entry, **row})
        elif known[entry] != row["provider_id"]:
            raise ConflictError(
                f"the tool id {row['canonical_id']!r:.80} is stored with another native id: load the session again"
            )
    if new:
        connection.execute(sa.insert(tool_ids), new)


def load_tool_ids(connection: sa.Connection, session_id: str) -> dict[str, Any]:
    """Return the output of `ToolIdMap.dump`, in its order."""
    issued: dict[str, list[str]] = {}
    sent: dict[str, dict[str, str]] = {}
    stored = sa.select(tool_ids).where(tool_ids.c.session_id == session_id).order_by(tool_ids.c.number)
    for row in connection.execute(stored):
        provider, canonical, name = map(columns.decode_text, (row.provider, row.canonical_id, row.provider_id))
        if row.kind == "issued":
            issued[canonical] = [provider, name]
        else:
            sent.setdefault(provider, {})[canonical] = name
    return {"issued": issued, "sent": sent}


_ENTRY = ("kind", "provider", "canonical_id", "provider_id")


def _entries(dump: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the values of `_ENTRY` for each entry of the map. Raises StoreError if the map is malformed."""
    try:
        for canonical, (provider, name) in dump.get("issued", {}).items():
            yield "issued", columns.encode_text(provider), columns.encode_text(canonical), columns.encode_text(name)
        for provider, names in dump.get("sent", {}).items():
            for canonical, name in names.items():
                yield "sent", columns.encode_text(provider), columns.encode_text(canonical), columns.encode_text(name)
    except (AttributeError, TypeError, ValueError) as error:
        raise StoreError(f"this is not a dump of a ToolIdMap: {type(error).__name__}: {error!s:.200}") from None


OPEN, DONE = "open", "done"

# Built once: building a statement takes as long as running it.
_IS_TURN = (turns.c.session_id == sa.bindparam("of_session")) & (turns.c.number == sa.bindparam("of_turn"))
_INSERT = sa.insert(turns)
_UPDATE = sa.update(turns).where(_IS_TURN)
_DELETE = sa.delete(turns).where(_IS_TURN)


def save_step(connection: sa.Connection, session_id: str, version: int, step: TurnStep, now: int) -> None:
    """Write what the step changes. ``session_id`` is the encoded id of a session that the step has brought to that
    version. Raises ConflictError if the turn is not there.
    """
    if step.given_up:
        connection.execute(_DELETE, {"of_session": session_id, "of_turn": step.given_up})
    if step.begins:
        connection.execute(_INSERT, _turn_row(session_id, version, step.turn or OpenTurn(), now))
    elif step.state == DONE:
        connection.execute(_DELETE, {"of_session": session_id, "of_turn": step.number})
    else:
        changes: dict[str, Any] = {} if step.turn is None else _content(step.turn)
        if step.state != OPEN:
            changes |= {"state": step.state, "error": columns.encode_optional(step.error)}
        of_turn = {"of_session": session_id, "of_turn": step.number}
        if changes and not connection.execute(_UPDATE.values(updated_at=now, **changes), of_turn).rowcount:
            raise ConflictError("the turn is not in the store any more: load the session again")
    common = {"of_session": session_id, "moment": now}
    if step.started:
        started = step.started.items()
        rows = [
            {**common, "of_call": columns.encode_text(call), "effects": columns.encode_optional(each)}
            for call, each in started
        ]
        connection.execute(_START, rows)
    if step.ended:

        def write_result(result: ToolResultBlock | None) -> str | None:
            return None if result is None else write_message(Message(role=Role.TOOL, content=(result,))).decode()

        ended = step.ended.items()
        rows = [{**common, "of_call": columns.encode_text(call), "result": write_result(each)} for call, each in ended]
        connection.execute(_END, rows)


def is_simple(step: TurnStep) -> bool:
    """Whether the step only begins a turn, or only ends one."""
    return not (step.started or step.ended or step.given_up) and (step.begins or step.state == DONE)


def begin_turn(advanced: sa.CTE) -> sa.Insert:
    """Return the statement that begins the turn of a session that is advanced."""
    known = {"number": advanced.c.version}
    values = (known.get(column.name, sa.bindparam(f"turn_{column.name}", type_=column.type)) for column in turns.c)
    return _INSERT.from_select([column.name for column in turns.c], sa.select(*values).select_from(advanced))


def end_turn(advanced: sa.CTE) -> sa.Delete:
    """Return the statement that ends the turn of a session that is advanced."""
    return _DELETE.where(sa.exists(sa.select(advanced.c.version)))


def simple_values(session_id: str, step: TurnStep, now: int) -> dict[str, Any]:
    """Return the parameters of both."""
    if not step.begins:
        return {"of_turn": step.number}
    return {f"turn_{name}": value for name, value in _turn_row(session_id, 0, step.turn or OpenTurn(), now).items()}


def load_turn(connection: sa.Connection, session_id: str, messages: tuple[Message, ...]) -> OpenTurn | None:
    """Return the open turn of a session with these messages. Raises UnreadableError."""
    found = (
        sa.select(turns).where(turns.c.session_id == session_id, turns.c.state == OPEN).order_by(turns.c.number.desc())
    )
    row = connection.execute(found.limit(1)).mappings().one_or_none()
    if row is None:
        return None
    started = sa.select(tool_calls).where(
        tool_calls.c.session_id == session_id,
        tool_calls.c.seq >= row["first_seq"],
        sa.or_(tool_calls.c.started_at.is_not(None), tool_calls.c.completed_at.is_not(None)),
    )
    try:
        by_id = {message.id: message for message in messages}
        calls = {
            columns.decode_text(call["id"]): _progress(call, by_id)
            for call in connection.execute(started.order_by(tool_calls.c.seq, tool_calls.c.position)).mappings()
        }
        prompt: list[Message] = []
        retention: dict[str, Mapping[str, Any]] = {}
        for entry in columns.decode_json(row["prompt_json"]):
            kept = entry.pop(RETENTION, None)
            prompt.append(read_message(entry))
            if isinstance(kept, Mapping):
                retention[prompt[-1].id] = kept
        return OpenTurn(
            number=row["number"],
            prompt=tuple(prompt),
            first_message=row["first_seq"],
            attempts=_ATTEMPTS.validate_python(columns.decode_json(row["attempts_json"])),
            calls=calls,
            retention=retention,
        )
    except columns.MALFORMED_DATA_ERRORS as error:
        raise columns.unreadable_error(f"the open turn of the session {session_id!r:.80}", error) from None


_CALL_TEXTS = ("session_id", "message_id", "id", "name", "side_effects", "result_message_id")


def call_from_row(row: sa.RowMapping) -> StoredCall:
    """Return the call of a row. Raises UnreadableError."""
    try:
        texts: dict[str, Any] = {name: columns.decode_optional(row[name]) for name in _CALL_TEXTS}
        times: dict[str, Any] = {
            name: None if row[name] is None else columns.from_micros(row[name])
            for name in ("started_at", "completed_at")
        }
        return StoredCall(status=row["status"], created_at=columns.from_micros(row["created_at"]), **texts, **times)
    except columns.MALFORMED_DATA_ERRORS as error:
        raise columns.unreadable_error(f"a call of the session {row['session_id']!r:.80}", error) from None


def _turn_row(session_id: str, number: int, turn: OpenTurn, now: int) -> dict[str, Any]:
    user_id = next((message.metadata.user_id for message in turn.prompt if message.metadata.user_id), None)
    return {
        "session_id": session_id,
        "number": number,
        "state": OPEN,
        "error": None,
        **_content(turn),
        "first_seq": turn.first_message,
        "user_id": columns.encode_optional(user_id),
        "schema_version": SCHEMA_VERSION,
        "created_at": now,
        "updated_at": now,
    }


def _content(turn: OpenTurn) -> dict[str, Any]:
    prompt = [write_message(message).decode() for message in turn.prompt]
    for index, message in enumerate(turn.prompt):  # how long its data may be kept is one more field
        if (retention := turn.retention.get(message.id)) is not None:
            prompt[index] = f'{prompt[index][:-1]},"{RETENTION}":{wirejson.dumps_text(retention)}}}'
    costs = (None if each.cost_usd is None else format(each.cost_usd, "f") for each in turn.attempts)
    attempts = [asdict(each) | {"cost_usd": cost} for each, cost in zip(turn.attempts, costs, strict=True)]
    return {"prompt_json": f"[{','.join(prompt)}]", "attempts_json": wirejson.dumps_text(attempts)}


def _progress(row: sa.RowMapping, messages: Mapping[str, Message]) -> CallProgress:
    started, effects = row["started_at"] is not None, columns.decode_optional(row["side_effects"])
    if row["status"] != PENDING:
        message = messages.get(columns.decode_text(row["result_message_id"] or ""))
    elif row["result_json"] is not None:
        message = read_message(columns.decode_json(row["result_json"]))
    else:
        return CallProgress(started=started, side_effects=effects, waits=row["completed_at"] is not None)
    results = () if message is None else message.tool_results
    result = next((each for each in results if each.tool_use_id == columns.decode_text(row["id"])), None)
    return CallProgress(started=started, side_effects=effects, result=result)
