"""Turns for the tests."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import text

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.store import Store

START = datetime(2026, 11, 21, 8, tzinfo=UTC)


class Clock:
    """Each reading is a second later."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def priced_usage(cost: str = "0.000654") -> Usage:
    return Usage(
        input_tokens=8, output_tokens=42, cached_input_tokens=100, cache_creation_input_tokens=7, reasoning_tokens=30,
        cost_usd=Decimal(cost), cost_status=CostStatus.PRICED, pricing_version="2026-11-01/abc", latency_ms=1234,
    )  # fmt: skip


def reply(content: str, **fields: Any) -> Message:
    metadata = MessageMetadata(
        model="anthropic:claude-opus-5-5", provider="anthropic", usage=priced_usage(), user_id="usr_1", team_id="team_1"
    )
    return Message.assistant(content, metadata=metadata.model_copy(update=fields))


@dataclass
class ToolTurn:
    """A question, a call, its result and the reply, with the map that has the call's native id."""

    messages: list[Message]
    tool_ids: ToolIdMap
    call: str


def tool_turn(content: str = "Read it.", *, tool_ids: ToolIdMap | None = None, native: str = "toolu_1") -> ToolTurn:
    ids = tool_ids or ToolIdMap()
    call = ids.receive("anthropic", native)
    call_message = reply("").model_copy(
        update={"content": (TextBlock(text="I look."), ToolUseBlock(id=call, name="read_file", input={"path": "a"}))}
    )
    return ToolTurn([Message.user(content), call_message, Message.tool(call, "contents"), reply("Done.")], ids, call)


def rows(store: Store, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows in the database, read by SQL."""
    return store._database.read(lambda connection: [tuple(row) for row in connection.execute(text(query), parameters)])


def change(store: Store, statement: str, **parameters: Any) -> None:
    """Executes a statement on the database, not through the store."""
    store._database.write(lambda connection: connection.execute(text(statement), parameters))


TABLES = ("sessions", "messages", "attempts", "tool_calls", "tool_ids", "turns", "retention_records")


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, to compare two states."""
    return {table: sorted(rows(store, f"SELECT * FROM {table}"), key=repr) for table in TABLES}
