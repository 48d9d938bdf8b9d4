"""What LangGraph stores: checkpoints in MessagePack or JSON, and the SQLite files of its saver.

Source: langgraph/checkpoint/serde/jsonplus.py and langgraph/checkpoint/sqlite, 4.3 and 3.1.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from dragoman.formats.document import kind_of, parse
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.conversation import Conversation
from dragoman.formats.importers.langchain.messagepack import unpack
from dragoman.formats.importers.langchain.messages import from_langchain
from dragoman.formats.reading.fields import Fields, typed_errors
from dragoman.formats.reading.losses import source_losses

FORMAT = "langgraph"
_CHANNEL = "messages"
_STATES = (
    "v", "ts", "id", "channel_versions", "versions_seen", "updated_channels", "pending_sends", "current_tasks",
    "metadata",
)  # fmt: skip


def is_checkpoint(data: bytes) -> bool:
    """Whether the bytes begin as a checkpoint in MessagePack: a map whose first key is the version."""
    return data[:1] >= b"\x81" and data[:1] <= b"\x8f" and data[1:3] == b"\xa1v" and b"\xaechannel_values" in data


@typed_errors
def from_langgraph(document: Any) -> list[Conversation]:
    """Return the conversation in the channel ``messages`` of a checkpoint. Raises FormatError, with a path."""
    if isinstance(document, (bytes, bytearray)) and is_checkpoint(bytes(document)):
        document = unpack(bytes(document))
    checkpoint = parse(document, format_name=FORMAT)
    return [Conversation("1", from_langchain(_messages(checkpoint)))]


def _messages(document: Any) -> Any:
    if not isinstance(document, dict):
        raise FormatError(f"a checkpoint must be an object, not {kind_of(document)}")
    checkpoint = Fields(document, "$", FORMAT)
    checkpoint.ignore(*_STATES)
    values = checkpoint.object("channel_values")
    messages = values.take(_CHANNEL) if values is not None else None
    if values is None or not isinstance(messages, list):
        raise FormatError(f"a checkpoint must have a channel {_CHANNEL!r} with a list", path="$.channel_values")
    for name in values.rest():
        reason = "a channel of a graph other than its messages is left out"
        source_losses().add(f"{values.path}.{name}", reason)
    checkpoint.close()
    return messages


def from_langgraph_file(path: Path) -> list[Conversation]:
    """Return the latest state of each thread in a file of the SQLite saver. Raises FormatError."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "select thread_id, type, checkpoint from checkpoints as latest where checkpoint_ns = '' and "
                "checkpoint_id = (select max(checkpoint_id) from checkpoints where thread_id = latest.thread_id and "
                "checkpoint_ns = '') order by thread_id"
            ).fetchall()
    except sqlite3.Error as error:
        raise FormatError(f"this is not a file of LangGraph's checkpoints: {error}") from None
    found = []
    for thread, kind, data in rows:
        if kind not in ("msgpack", "json") or not isinstance(data, (bytes, str)):
            raise FormatError(f"a checkpoint of the type {str(kind)[:40]!r} is not read", path=f"$.threads[{thread}]")
        checkpoint = unpack(bytes(data)) if kind == "msgpack" and isinstance(data, bytes) else data
        try:
            found.append(Conversation(str(thread), from_langgraph(checkpoint)[0].messages))
        except FormatError as error:
            raise FormatError(error.reason, path=f"$.threads[{thread}]{error.path.removeprefix('$')}") from None
    return found
