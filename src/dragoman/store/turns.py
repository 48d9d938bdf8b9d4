"""The rows of turns that are open or failed, and of calls that run."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    CTE,
    Connection,
    Delete,
    Insert,
    RowMapping,
    bindparam,
    delete,
    exists,
    insert,
    or_,
    select,
    update,
)

from dragoman.adapter import wirejson
from dragoman.canonical.extensions.security import RETENTION
from dragoman.canonical.message import SCHEMA_VERSION, Message, Role, read_message, write_message
from dragoman.open_turns import CallProgress, FailedAttempt, OpenTurn, TurnStep
from dragoman.store.columns import (
    MALFORMED_DATA_ERRORS,
    decode_json,
    decode_optional,
    decode_text,
    encode_optional,
    encode_text,
    from_micros,
    unreadable_error,
)
from dragoman.store.errors import ConflictError
from dragoman.store.records import StoredCall
from dragoman.store.schema import tool_calls, turns
from dragoman.store.tool_calls import PENDING

OPEN, DONE = "open", "done"

# Built once: building a statement takes as long as running it.
_IS_TURN = (turns.c.session_id == bindparam("of_session")) & (turns.c.number == bindparam("of_turn"))
_INSERT = insert(turns)
_UPDATE = update(turns).where(_IS_TURN)
_DELETE = delete(turns).where(_IS_TURN)
_PENDING_CALL = update(tool_calls).where(
    tool_calls.c.session_id == bindparam("of_session"),
    tool_calls.c.status == PENDING,
    tool_calls.c.id == bindparam("of_call"),
)
_START = _PENDING_CALL.values(
    started_at=bindparam("moment"), side_effects=bindparam("effects"), completed_at=None, result_json=None
)
_END = _PENDING_CALL.values(completed_at=bindparam("moment"), result_json=bindparam("result"))


def save_step(connection: Connection, session_id: str, version: int, step: TurnStep, now: int) -> None:
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
            changes |= {"state": step.state, "error": encode_optional(step.error)}
        of_turn = {"of_session": session_id, "of_turn": step.number}
        if changes and not connection.execute(_UPDATE.values(updated_at=now, **changes), of_turn).rowcount:
            raise ConflictError("the turn is not in the store any more: load the session again")
    if step.started:
        connection.execute(
            _START,
            [
                {
                    "of_session": session_id,
                    "of_call": encode_text(call),
                    "moment": now,
                    "effects": encode_optional(effects),
                }
                for call, effects in step.started.items()
            ],
        )
    if step.ended:
        connection.execute(
            _END,
            [
                {
                    "of_session": session_id,
                    "of_call": encode_text(call),
                    "moment": now,
                    "result": None
                    if result is None
                    else write_message(Message(role=Role.TOOL, content=(result,))).decode(),
                }
                for call, result in step.ended.items()
            ],
        )


def is_simple(step: TurnStep) -> bool:
    """Whether the step only begins a turn, or only ends one."""
    return not (step.started or step.ended or step.given_up) and (step.begins or step.state == DONE)


def begin_turn(advanced: CTE) -> Insert:
    """Return the statement that begins the turn of a session that is advanced."""
    known = {"number": advanced.c.version}
    values = (known.get(column.name, bindparam(f"turn_{column.name}", type_=column.type)) for column in turns.c)
    return _INSERT.from_select([column.name for column in turns.c], select(*values).select_from(advanced))


def end_turn(advanced: CTE) -> Delete:
    """Return the statement that ends the turn of a session that is advanced."""
    return _DELETE.where(exists(select(advanced.c.version)))


def simple_values(session_id: str, step: TurnStep, now: int) -> dict[str, Any]:
    """Return the parameters of both."""
    if not step.begins:
        return {"of_turn": step.number}
    return {f"turn_{name}": value for name, value in _turn_row(session_id, 0, step.turn or OpenTurn(), now).items()}


def load_turn(connection: Connection, session_id: str, messages: tuple[Message, ...]) -> OpenTurn | None:
    """Return the open turn of a session with these messages. Raises UnreadableError."""
    found = select(turns).where(turns.c.session_id == session_id, turns.c.state == OPEN).order_by(turns.c.number.desc())
    row = connection.execute(found.limit(1)).mappings().one_or_none()
    if row is None:
        return None
    started = select(tool_calls).where(
        tool_calls.c.session_id == session_id,
        tool_calls.c.seq >= row["first_seq"],
        or_(tool_calls.c.started_at.is_not(None), tool_calls.c.completed_at.is_not(None)),
    )
    try:
        by_id = {message.id: message for message in messages}
        calls = {
            decode_text(call["id"]): _progress(call, by_id)
            for call in connection.execute(started.order_by(tool_calls.c.seq, tool_calls.c.position)).mappings()
        }
        prompt, retention = _read_prompt(row["prompt_json"])
        return OpenTurn(
            number=row["number"],
            prompt=prompt,
            first_message=row["first_seq"],
            attempts=tuple(
                FailedAttempt(
                    model=each["model"],
                    error=each["error"],
                    cost_usd=None if each["cost_usd"] is None else Decimal(each["cost_usd"]),
                    reply_id=each["reply_id"],
                )
                for each in decode_json(row["attempts_json"])
            ),
            calls=calls,
            retention=retention,
        )
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error(f"the open turn of the session {session_id!r:.80}", error) from None


def call_from_row(row: RowMapping) -> StoredCall:
    """Return the call of a row. Raises UnreadableError."""
    try:
        return StoredCall(
            session_id=decode_text(row["session_id"]),
            message_id=decode_text(row["message_id"]),
            id=decode_text(row["id"]),
            name=decode_text(row["name"]),
            status=row["status"],
            side_effects=decode_optional(row["side_effects"]),
            created_at=from_micros(row["created_at"]),
            started_at=_optional_time(row["started_at"]),
            completed_at=_optional_time(row["completed_at"]),
            result_message_id=decode_optional(row["result_message_id"]),
        )
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error(f"a call of the session {row['session_id']!r:.80}", error) from None


def _turn_row(session_id: str, number: int, turn: OpenTurn, now: int) -> dict[str, Any]:
    user_id = next((message.metadata.user_id for message in turn.prompt if message.metadata.user_id), None)
    return {
        "session_id": session_id,
        "number": number,
        "state": OPEN,
        "error": None,
        **_content(turn),
        "first_seq": turn.first_message,
        "user_id": encode_optional(user_id),
        "schema_version": SCHEMA_VERSION,
        "created_at": now,
        "updated_at": now,
    }


def _content(turn: OpenTurn) -> dict[str, Any]:
    prompt = [write_message(message).decode() for message in turn.prompt]
    for index, message in enumerate(turn.prompt):  # how long its data may be kept is one more field
        if (retention := turn.retention.get(message.id)) is not None:
            prompt[index] = f'{prompt[index][:-1]},"{RETENTION}":{wirejson.dumps_text(retention)}}}'
    attempts = [
        {
            "model": each.model,
            "error": each.error,
            "cost_usd": None if each.cost_usd is None else format(each.cost_usd, "f"),
            "reply_id": each.reply_id,
        }
        for each in turn.attempts
    ]
    return {"prompt_json": f"[{','.join(prompt)}]", "attempts_json": wirejson.dumps_text(attempts)}


def _read_prompt(stored: str) -> tuple[tuple[Message, ...], dict[str, Mapping[str, Any]]]:
    prompt: list[Message] = []
    retention: dict[str, Mapping[str, Any]] = {}
    for entry in decode_json(stored):
        kept = entry.pop(RETENTION, None)
        prompt.append(read_message(entry))
        if isinstance(kept, Mapping):
            retention[prompt[-1].id] = kept
    return tuple(prompt), retention


def _progress(row: RowMapping, messages: Mapping[str, Message]) -> CallProgress:
    started, effects = row["started_at"] is not None, decode_optional(row["side_effects"])
    if row["status"] != PENDING:
        message = messages.get(decode_text(row["result_message_id"] or ""))
    elif row["result_json"] is not None:
        message = read_message(decode_json(row["result_json"]))
    else:
        return CallProgress(started=started, side_effects=effects, waits=row["completed_at"] is not None)
    results = () if message is None else message.tool_results
    result = next((each for each in results if each.tool_use_id == decode_text(row["id"])), None)
    return CallProgress(started=started, side_effects=effects, result=result)


def _optional_time(stored: int | None) -> datetime | None:
    return None if stored is None else from_micros(stored)
