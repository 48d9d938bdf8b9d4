"""The SQLite log of simonw/llm: threads of shared messages (0.30 and later), or single responses.

The file is opened read only. Attachments in files are referred to by path and not read.
"""

import base64
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, TextBlock
from dragoman.canonical.message import Role
from dragoman.formats.document import copy_json_at, objects_in, parse
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.llm_documents import (
    FORMAT,
    LIBRARY,
    RowReader,
    full_model,
    read_native_reply,
    read_part,
    read_usage,
)
from dragoman.formats.reading.blocks import provider_block, to_text
from dragoman.formats.reading.fields import Fields, typed_errors
from dragoman.formats.reading.turns import Turns, read_time
from dragoman.formats.results import Conversation
from dragoman.sqlite_files import read_database

Row = dict[str, Any]
_PARTS = ("text", "reasoning", "tool_call", "tool_result", "attachment")


@typed_errors
def from_llm_logs(path: str | Path) -> list[Conversation]:
    """Return every conversation of a log, by its id, the oldest first.

    Raises FormatError if the file is not such a log, with table and row in its path, and ConfigurationError if
    there is no file.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigurationError(f"there is no file {str(path)!r}")

    def read(database: sqlite3.Connection) -> list[Conversation]:
        log = _Log(database)
        return [*log.threads(), *log.conversations()]

    try:
        return read_database(file, read)
    except sqlite3.Error as error:
        raise FormatError(f"this is not a log of llm: {error!s:.200}") from None
    except KeyError as error:
        raise FormatError(f"this is not a log of llm: a table has no column {error!s:.80}") from None


class _Log:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._tables = {row["name"] for row in self._rows("select name from sqlite_master where type = 'table'")}
        if not {"threads", "responses"} & self._tables:
            raise FormatError("this is not a log of llm: it has neither threads nor responses")
        self._fragments: dict[Any, str] = {}

    def threads(self) -> Iterator[Conversation]:
        """Yield each thread: a message and all its ancestors."""
        if "threads" not in self._tables:
            return
        turns = {row["tip_message_hash"]: row for row in self._rows("select * from turns order by id")}
        for thread in self._rows("select * from threads order by id"):
            tip = thread["tip_message_hash"]
            path = f"$.threads[{thread['id']}]"
            found: dict[Any, Row] = {}
            while tip is not None:
                rows = self._rows("select * from messages where hash = ?", [tip])
                if not rows or tip in found:
                    raise FormatError("the thread refers to a missing message, or to itself", path=path)
                found[tip] = rows[0]
                tip = rows[0]["parent_hash"]
            chain = list(found.values())[::-1]
            ended: list[Row | None] = [turns.get(native["hash"]) for native in chain]
            times: list[datetime | None] = []  # of each message: that of its turn, which ends with it or after it
            for turn in reversed(ended):
                times.append(read_time(turn["datetime_utc"]) if turn else times[-1] if times else None)
            times.reverse()
            collected = Turns(str(thread["id"]))
            for native, turn, time in zip(chain, ended, times, strict=True):
                self._add(native, turn, time, collected)
            yield Conversation(str(thread["id"]), collected.messages)

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations of older versions: their rows with what belongs to them are those of `llm logs`."""
        readers: dict[str, RowReader] = {}
        for row in self._rows("select * from responses order by id") if "responses" in self._tables else ():
            native = {**row, "model": row["model"], "datetime_utc": row["datetime_utc"]}
            for kind in ("prompt", "system"):
                used = self._related_rows(f"{kind}_fragments", row, order='"order"')
                native[f"{kind}_fragments"] = [{"content": self._fragment(each["fragment_id"])} for each in used]
            for table in ("tool_results", "tool_calls"):
                native[table] = self._related_rows(table, row)
            path = f"$.responses[{row['id']}]"
            attached = self._related_rows("prompt_attachments", row, order='"order"')
            native["attachments"] = [self._attachment({"id": each["attachment_id"]}, path) for each in attached]
            name = str(row.get("conversation_id") or row["id"])
            reader = readers.setdefault(name, RowReader(name))
            reader.add(Fields(native, path, FORMAT), latency_ms=_latency(row))
        return (Conversation(name, reader.turns.messages) for name, reader in readers.items())

    def _add(self, native: Row, turn: Row | None, time: datetime | None, turns: Turns) -> None:
        """Add a message of a thread."""
        message = Fields(native, f"$.messages[{native['hash']}]", LIBRARY)
        role = message.role()
        parts = self._rows("select * from parts where message_hash = ? order by position", [native["hash"]])
        turns.start(role, has_results=any(part["type"] == "tool_result" for part in parts))
        blocks: list[ContentBlock] = []
        for part in parts:
            where = f"$.parts[{part['id']}]"
            fields = self._payload(part["payload"], where)
            if part["text"] is not None:
                fields["text"] = part["text"]
            blocks += self._part(to_text(part["type"]), fields, turns, where)
        metadata = None
        if turn is not None and role is Role.ASSISTANT:
            blocks = _with_citations(blocks, turn)
            counts = (turn.get(name) for name in ("input_tokens", "output_tokens", "token_details"))
            usage = read_usage(*counts, latency_ms=_latency(turn))
            metadata = {"model": full_model(turn.get("resolved_model") or turn["model"]), "usage": usage}
        if blocks:
            turns.add(role, blocks, message.path, metadata=metadata, created_at=time)

    def _part(self, kind: str, fields: dict[str, Any], turns: Turns, path: str) -> list[ContentBlock]:
        if kind not in _PARTS or fields.get("server_executed"):
            return [provider_block(LIBRARY, kind, fields)]
        if isinstance(pieces := fields.get("text_ref"), list):  # a text may refer to fragments
            fields["text"] = "".join(
                to_text(each["literal"]) if "literal" in each else self._fragment(each.get("fragment"))
                for each in objects_in(pieces)
            )
        if kind == "attachment":
            fields["attachment"] = self._attachment(fields.get("attachment"), path)
        elif isinstance(fields.get("attachments"), list):
            fields["attachments"] = [self._attachment(each, path) for each in fields["attachments"]]
        return read_part(Fields({**fields, "type": kind}, path, LIBRARY), turns)

    def _fragment(self, number: Any) -> str:
        if not isinstance(number, int):
            return ""
        if number not in self._fragments:
            rows = self._rows("select content from fragments where id = ?", [number])
            self._fragments[number] = to_text(rows[0]["content"]) if rows else ""
        return self._fragments[number]

    def _attachment(self, reference: Any, path: str) -> Row:
        """Return an attachment as documents have it, with its content as base64."""
        named = to_text(reference.get("id")) if isinstance(reference, dict) else ""
        rows = self._rows("select * from attachments where id = ?", [named])
        if not rows:
            raise FormatError("the attachment is missing", path=path)
        content = rows[0]["content"]
        if content is not None:
            data = content if isinstance(content, bytes) else str(content).encode()
            content = base64.b64encode(data).decode()
        return {**rows[0], "content": content}

    def _related_rows(self, table: str, row: Row, *, order: str = "id") -> list[Row]:
        if table not in self._tables:
            return []
        return self._rows(f"select * from {table} where response_id = ? order by {order}", [row["id"]])

    def _payload(self, text: Any, path: str) -> dict[str, Any]:
        if text is None:
            return {}
        try:
            fields = copy_json_at(parse(text, format_name=LIBRARY), path)
        except FormatError as error:
            raise FormatError(error.reason, path=f"{path}.payload") from None
        if not isinstance(fields, dict):
            raise FormatError("a payload must be an object", path=f"{path}.payload")
        return fields

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._database.execute(statement, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _latency(row: Row) -> int | None:
    latency = row.get("duration_ms")
    return latency if isinstance(latency, int) else None


def _with_citations(blocks: list[ContentBlock], turn: Row) -> list[ContentBlock]:
    """Return the blocks with the texts of the provider's own reply in place of the same text without citations."""
    native = read_native_reply(turn.get("response_json"), f"$.turns[{turn['id']}].response_json")
    cited = [block for block in native if isinstance(block, TextBlock)]
    texts = [(index, block.text) for index, block in enumerate(blocks) if isinstance(block, TextBlock)]
    if not any(block.citations for block in cited) or len(texts) != 1:
        return blocks
    ((index, text),) = texts
    is_same = text == "".join(block.text for block in cited)
    return [*blocks[:index], *cited, *blocks[index + 1 :]] if is_same else blocks
