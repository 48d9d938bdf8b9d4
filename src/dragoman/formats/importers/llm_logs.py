"""The SQLite log of simonw/llm: threads of shared messages (0.30 and later), or single responses.

The file is opened read only. Attachments in files are referred to by path and not read.
"""

import base64
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import copy_json_at, parse, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.llm_documents import LIBRARY, full_model, read_native_reply, read_reasoning, read_usage
from dragoman.formats.reading.blocks import (
    build_messages,
    media_block,
    provider_block,
    result_call_id,
    text_blocks,
    to_text,
    tool_call,
)
from dragoman.formats.reading.fields import ROLES
from dragoman.formats.reading.tool_calls import ToolIdReader, pair_groups, pair_repeated
from dragoman.formats.reading.turns import read_time
from dragoman.formats.results import Conversation
from dragoman.sqlite_files import read_database

Row = dict[str, Any]


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
            ids = ToolIdReader()
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
            groups = [
                self._message(native, turn, time, ids, str(thread["id"]))
                for native, turn, time in zip(chain, ended, times, strict=True)
            ]
            paired = pair_groups(groups, [f"$.messages[{native['hash']}]" for native in chain])
            yield Conversation(str(thread["id"]), [message for group in paired for message in group])

    def conversations(self) -> Iterator[Conversation]:
        """Yield the conversations of older versions, in which a row holds prompt and response."""
        if "responses" not in self._tables:
            return
        grouped: dict[str, list[Row]] = {}
        for row in self._rows("select * from responses order by id"):
            grouped.setdefault(str(row.get("conversation_id") or row["id"]), []).append(row)
        for name, rows in grouped.items():
            ids = ToolIdReader()
            read: list[Message] = []
            paths: list[str] = []
            last_system: str | None = None
            for row in rows:
                system = self._with_fragments(row, "system")
                if system and system != last_system:
                    read += build_messages(
                        Role.SYSTEM, text_blocks(system), created_at=read_time(row["datetime_utc"]), session_id=name
                    )
                    last_system = system
                with validating(dict(row), f"$.responses[{row['id']}]"):
                    read += self._exchange(row, ids, name)
                paths += [f"$.responses[{row['id']}]"] * (len(read) - len(paths))
            yield Conversation(name, pair_repeated(read, paths))

    def _message(
        self, native: Row, turn: Row | None, time: datetime | None, ids: ToolIdReader, thread: str
    ) -> list[Message]:
        path = f"$.messages[{native['hash']}]"
        role = ROLES.get(to_text(native["role"]))
        if role is None:
            raise FormatError(f"unknown role {to_text(native['role'])[:80]!r}", path=f"{path}.role")
        parts = self._rows("select * from parts where message_hash = ? order by position", [native["hash"]])
        ids.start_turn(role, has_results=any(part["type"] == "tool_result" for part in parts))
        blocks: list[ContentBlock] = []
        for part in parts:
            where = f"$.parts[{part['id']}]"
            fields = self._payload(part["payload"], where)
            if part["text"] is not None:
                fields["text"] = part["text"]
            with validating(fields, where):
                blocks += self._part(to_text(part["type"]), fields, ids, where)
        if turn is not None and role is Role.ASSISTANT:
            blocks = _with_citations(blocks, turn)
        with validating(dict(native), path):
            return build_messages(
                role,
                blocks,
                session_id=thread,
                created_at=time,
                metadata=_turn_metadata(turn) if turn and role is Role.ASSISTANT else None,
            )

    def _part(self, kind: str, fields: dict[str, Any], ids: ToolIdReader, path: str) -> list[ContentBlock]:
        match kind:
            case "text":
                return text_blocks(self._text(fields))
            case "reasoning":
                redacted = fields.get("redacted") is True
                return read_reasoning(self._text(fields), fields.get("provider_metadata"), path, is_redacted=redacted)
            case "tool_call" if not fields.get("server_executed"):
                return [tool_call(ids, _call_id(fields), to_text(fields.get("name")), fields.get("arguments"))]
            case "tool_result" if not fields.get("server_executed"):
                named = fields.get("attachments")
                attached = [self._attachment(each, path) for each in named] if isinstance(named, list) else []
                result = ToolResultBlock(
                    tool_use_id=result_call_id(ids, _call_id(fields), to_text(fields.get("name"))),
                    content=(*text_blocks(fields.get("output")), *attached),
                    is_error=fields.get("exception") is not None,
                )
                return [result]
            case "attachment":
                return [self._attachment(fields.get("attachment"), path)]
            case _:
                return [provider_block(LIBRARY, kind, fields)]

    def _text(self, fields: Mapping[str, Any]) -> str:
        """Return the text of a part, which may refer to fragments."""
        pieces = fields.get("text_ref")
        if not isinstance(pieces, list):
            return to_text(fields.get("text"))
        found = (each for each in pieces if isinstance(each, dict))
        return "".join(
            to_text(each["literal"]) if "literal" in each else self._fragment(each.get("fragment")) for each in found
        )

    def _fragment(self, number: Any) -> str:
        if not isinstance(number, int):
            return ""
        if number not in self._fragments:
            rows = self._rows("select content from fragments where id = ?", [number])
            self._fragments[number] = to_text(rows[0]["content"]) if rows else ""
        return self._fragments[number]

    def _attachment(self, reference: Any, path: str) -> ContentBlock:
        named = to_text(reference.get("id")) if isinstance(reference, dict) else ""
        rows = self._rows("select * from attachments where id = ?", [named])
        if not rows:
            raise FormatError("the attachment is missing", path=path)
        row = rows[0]
        if row["content"] is not None:
            content = row["content"] if isinstance(row["content"], bytes) else str(row["content"]).encode()
            return media_block("base64", base64.b64encode(content).decode(), row["type"])
        if row["url"] is not None:
            return media_block("url", row["url"], row["type"])
        return media_block("file_ref", to_text(row["path"]), row["type"])

    def _exchange(self, row: Row, ids: ToolIdReader, name: str) -> list[Message]:
        """Return one response of an older version, preceded by its request: tool results, then the prompt."""
        shared: dict[str, Any] = {"session_id": name, "created_at": read_time(row["datetime_utc"])}
        read: list[Message] = []
        for result in self._related_rows("tool_results", row):
            block = ToolResultBlock(
                tool_use_id=result_call_id(ids, result["tool_call_id"], result["name"]),
                content=tuple(text_blocks(result["output"])),
                is_error=result.get("exception") is not None,
            )
            read += build_messages(Role.TOOL, [block], **shared)
        prompt_blocks = text_blocks(self._with_fragments(row, "prompt"))
        attached = self._related_rows("prompt_attachments", row, order='"order"')
        prompt_blocks += [
            self._attachment({"id": each["attachment_id"]}, f"$.responses[{row['id']}]") for each in attached
        ]
        if prompt_blocks:
            ids.start_turn(Role.USER, has_results=False)
        read += build_messages(Role.USER, prompt_blocks, **shared)
        reply_blocks: list[ContentBlock] = [ThinkingBlock(text=row["reasoning"])] if row.get("reasoning") else []
        reply_blocks += [TextBlock(text=row["response"])] if row["response"] else []
        path = f"$.responses[{row['id']}].response_json"
        reply_blocks = read_native_reply(row.get("response_json"), path) or reply_blocks
        ids.start_turn(Role.ASSISTANT, has_results=False)
        reply_blocks += [
            tool_call(ids, each["tool_call_id"], each["name"], each["arguments"])
            for each in self._related_rows("tool_calls", row)
        ]
        return [*read, *build_messages(Role.ASSISTANT, reply_blocks, **shared, metadata=_turn_metadata(row))]

    def _with_fragments(self, row: Row, kind: str) -> str:
        """Return a prompt or a system prompt, preceded by its fragments."""
        used = [
            self._fragment(each["fragment_id"])
            for each in self._related_rows(f"{kind}_fragments", row, order='"order"')
        ]
        return "\n".join([*filter(None, used), *([row[kind]] if row[kind] else [])])

    def _related_rows(self, table: str, row: Row, *, order: str = "id") -> Sequence[Row]:
        if table not in self._tables:
            return ()
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


def _turn_metadata(row: Row) -> dict[str, Any]:
    """Return the model and the counts of a turn."""
    latency = row.get("duration_ms")
    return {
        "model": full_model(row.get("resolved_model") or row["model"]),
        "usage": read_usage(
            row.get("input_tokens"),
            row.get("output_tokens"),
            row.get("token_details"),
            latency_ms=latency if isinstance(latency, int) else None,
        ),
    }


def _with_citations(blocks: list[ContentBlock], turn: Row) -> list[ContentBlock]:
    """Return the blocks with the texts of the provider's own reply in place of the same text without citations."""
    native = read_native_reply(turn.get("response_json"), f"$.turns[{turn['id']}].response_json")
    cited = [block for block in native if isinstance(block, TextBlock)]
    positions = [index for index, block in enumerate(blocks) if isinstance(block, TextBlock)]
    texts = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    if (
        len(positions) != 1
        or not any(block.citations for block in cited)
        or texts != "".join(block.text for block in cited)
    ):
        return blocks
    return [*blocks[: positions[0]], *cited, *blocks[positions[0] + 1 :]]


def _call_id(fields: Mapping[str, Any]) -> str | None:
    native = fields.get("tool_call_id")
    return native if isinstance(native, str) else None
