"""A history as a log of simonw/llm, which ``llm -c`` continues: a SQLite file with one thread.

A message is identified by a hash of its content and of the one before it, as `llm.logs` computes it, so that llm finds
no difference. Source: llm/logs.py and llm/parts.py, 0.36.
"""

import base64
import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib.resources import files
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    MediaBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.ids import new_ulid
from dragoman.canonical.message import Message, Role
from dragoman.formats.exporters.shared import Entry, LibraryWriter, base64_of, media_type_of
from dragoman.formats.results import Conversion

_ROLES = {Role.DEVELOPER: "system"}
_PREFIXES = {"openai": "", "openai-chat": "", "google": "gemini/"}
"""What stands before the names of models in llm; for other providers it is the provider and a slash."""
_MAX_NAME = 100


def to_llm_log(messages: Sequence[Message]) -> Conversion[bytes]:
    """Write a history as the bytes of a log with one thread. Raises CriticalLossError if a critical block is lost.

    llm continues it with the model of the last reply, if a plugin of that name is installed.
    """
    writer = _Writer(messages)
    written = writer.write(writer.entries)
    return Conversion(writer.database(written.data), written.losses, written.labels)


class _Writer(LibraryWriter):
    library, label = "llm", "a log of llm"

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages)
        self._attachments: dict[str, tuple[str, str | None, bytes | None]] = {}
        """Type, URL and content of each attachment by its id."""
        self._replies: dict[int, Message] = {}
        """The message of each entry of a reply."""
        self._count = 0

    def entries(self, message: Message) -> list[Entry]:
        """Return a message of llm, or none if nothing of it can be written. A result has a message of its own."""
        self.check_message(message)
        if message.role is Role.DEVELOPER:
            self.report_role(message, "system")
        parts = [part for index, block in enumerate(message.content) for part in self._part(message, index, block)]
        if not parts:
            self.losses.add_info(message, -1, "nothing of the message can be written: left out", LossKind.EMPTY_MESSAGE)
            return []
        if message.role is Role.ASSISTANT:
            self._replies[self._count] = message
            if message.stop_reason is not None:
                reason = "a log of llm has no reason for the end of a reply: left out"
                self.losses.add_info(message, -1, reason, LossKind.FIELD)
        self._count += 1
        return [{"role": _ROLES.get(message.role, str(message.role)), "parts": parts}]

    def _part(self, message: Message, index: int, block: ContentBlock) -> list[Entry]:
        match block:
            case TextBlock():
                if block.citations:
                    self.leave_out(message, index, "citation", kind=LossKind.CITATIONS)
                return [{"type": "text", "text": block.text}]
            case ThinkingBlock():
                signed = self._metadata(message, {"signature": block.signature}) if block.signature else {}
                redacted = {"redacted": True} if not block.text else {}
                return [{"type": "reasoning", "text": block.text, **redacted, **signed}]
            case RedactedThinkingBlock():
                data = {"type": "redacted_thinking", "data": block.data}
                return [{"type": "reasoning", "text": "", "redacted": True, **self._metadata(message, data)}]
            case ToolUseBlock():
                arguments = self.object_arguments(message, index, block)
                return [{"type": "tool_call", "name": block.name, "arguments": arguments, "tool_call_id": block.id}]
            case ToolResultBlock():
                return [self._result(message, index, block)]
            case ProviderBlock(provider=self.library):
                return [{"type": block.kind, **block.data}]
            case _ if (
                isinstance(block, MEDIA_BLOCKS) and (reference := self._attach(message, index, block)) is not None
            ):
                return [{"type": "attachment", "attachment": reference}]
            case _:
                return self.text_parts(message, index, block)

    def _metadata(self, message: Message, fields: Mapping[str, Any]) -> Entry:
        """Return what only the issuer can read, under the name of its provider."""
        provider = (message.metadata.model or "").partition(":")[0] or message.metadata.provider or "unknown"
        return {"provider_metadata": {provider: dict(fields)}}

    def _result(self, message: Message, index: int, block: ToolResultBlock) -> Entry:
        texts: list[str] = []
        attached: list[Entry] = []
        for part in block.content:
            reference = self._attach(message, index, part) if isinstance(part, MEDIA_BLOCKS) else None
            if isinstance(part, TextBlock):
                texts.append(part.text)
                if part.citations:
                    self.leave_out(message, index, "citation", kind=LossKind.CITATIONS)
            elif reference is not None:
                attached.append(reference)
            else:
                texts += self.as_texts(message, index, part)
        if len(texts) > 1:
            reason = "a result of llm is one text: its texts are joined"
            self.losses.add_info(message, index, reason, LossKind.FLATTENED)
        output = "".join(texts)
        return {
            "type": "tool_result",
            "name": self.names.get(block.tool_use_id, ""),
            "output": output,
            "tool_call_id": block.tool_use_id,
            **({"exception": output or "error"} if block.is_error else {}),
            **({"attachments": attached} if attached else {}),
        }

    def _attach(self, message: Message, index: int, block: MediaBlock) -> Entry | None:
        """Return a reference to an attachment; None if its content is neither here nor at a URL."""
        content = base64_of(block.source)
        url = block.source.data if block.source.kind == "url" else None
        if content is None and url is None:
            return None
        if getattr(block, "title", None) is not None or getattr(block, "detail", None) is not None:
            self.leave_out(message, index, "title or detail of a medium", kind=LossKind.MEDIA)
        self.check_medium(message, index, block, typed=("base64", "text", "url"))
        try:
            data = base64.b64decode(content, validate=True) if content is not None else None
        except ValueError:
            self.leave_out(message, index, "content that is not base64", kind=LossKind.MEDIA)
            return None
        identity = data if data is not None else json.dumps({"url": url}).encode()
        name, kind = hashlib.sha256(identity).hexdigest(), media_type_of(block)
        known = self._attachments.setdefault(name, (kind, url, data))[0]
        if known != kind:
            reason = "a log of llm has one type for the same content: that of the first medium"
            self.losses.add(message, index, reason, kind=LossKind.MEDIA)
        return {"id": name, "type": known}

    def database(self, entries: list[Entry]) -> bytes:
        """Return the file. The schema is a resource beside this module."""
        schema = files("dragoman.formats.exporters").joinpath("llm_log.sql").read_text(encoding="utf-8")
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(schema)
            for name, (kind, url, content) in self._attachments.items():
                _insert(database, "attachments", id=name, type=kind, url=url, content=content)
            self._write_thread(database, entries)
            database.commit()
            return database.serialize()

    def _write_thread(self, database: sqlite3.Connection, entries: list[Entry]) -> None:
        thread, tip = new_ulid().lower(), None
        turns: list[tuple[Message, str | None, str]] = []
        for number, entry in enumerate(entries):
            # llm knows a message by 16 bytes of BLAKE2b of its JSON, in which the hash of the one before stands.
            identity = {"parent": tip, "message": entry}
            text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            parent, tip = tip, f"b2:{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
            _insert(database, "messages", hash=tip, parent_hash=parent, role=entry["role"])
            for position, part in enumerate(entry["parts"]):
                attached = [part["attachment"]] if "attachment" in part else part.get("attachments", [])
                references = [{"id": each["id"]} for each in attached]
                payload = {name: value for name, value in part.items() if name not in ("type", "text")}
                if "attachment" in payload:
                    payload["attachment"] = references[0]
                elif "attachments" in payload:
                    payload["attachments"] = references
                row = _insert(
                    database, "parts", message_hash=tip, position=position, type=part["type"],
                    tool_name=part.get("name"), text=part.get("text"), payload=json.dumps(payload) if payload else None,
                )  # fmt: skip
                for order, reference in enumerate(attached):
                    _insert(database, "part_attachments", part_id=row, attachment_id=reference["id"], order=order)
            if number in self._replies:
                turns.append((self._replies[number], parent, tip))
        first = next((part["text"] for entry in entries for part in entry["parts"] if entry["role"] == "user"
                      and part["type"] == "text"), "")  # fmt: skip
        time = self.history[0].created_at.isoformat() if self.history else None
        name = first[:_MAX_NAME]
        _insert(database, "threads", id=thread, name=name, tip_message_hash=tip, datetime_utc=time)
        if not turns:  # llm finds the model of a thread without a reply here
            _insert(database, "conversations", id=thread, name=name)
        for message, parent, reply in turns:
            _insert(
                database, "turns", id=new_ulid().lower(), thread_id=thread, parent_message_hash=parent,
                tip_message_hash=reply, model=_model(message), datetime_utc=message.created_at.isoformat(),
                **_counts(message),
            )  # fmt: skip


def _insert(database: sqlite3.Connection, table: str, **row: Any) -> int | None:
    """Insert a row, unless it is there already, and return its number."""
    columns, places = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    return database.execute(f"insert or ignore into {table} ({columns}) values ({places})", (*row.values(),)).lastrowid


def _model(message: Message) -> str | None:
    """Return llm's name of the model of a reply; None, which llm takes for its default model, if it is not known."""
    provider, colon, name = (message.metadata.model or "").partition(":")
    if name == "unnamed":
        return None
    if not colon:
        return message.metadata.model
    return f"{_PREFIXES.get(provider, f'{provider}/')}{name}"


def _counts(message: Message) -> Entry:
    usage = message.usage
    if usage is None:
        return {}
    inputs = {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": usage.cache_creation_input_tokens}
    outputs = {"reasoning_tokens": usage.reasoning_tokens}
    details: dict[str, dict[str, int | None]] = {"input_tokens_details": {**inputs}, "output_tokens_details": outputs}
    said = {kind: {name: count for name, count in counts.items() if count} for kind, counts in details.items()}
    found = {kind: counts for kind, counts in said.items() if counts}
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "token_details": json.dumps(found) if found else None,
        "duration_ms": usage.latency_ms,
    }
