"""What LangGraph stores: checkpoints in MessagePack or JSON, and the SQLite files of its saver.

MessagePack has JSON types here, and objects as their fields. Nothing is instantiated.
Sources: https://github.com/msgpack/msgpack/blob/master/spec.md, langgraph/checkpoint/serde/jsonplus.py, 4.3, and
langgraph/checkpoint/sqlite, 3.1.
"""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.document import kind_of, parse
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.langchain.messages import from_langchain
from dragoman.formats.reading.fields import Fields, typed_errors
from dragoman.formats.reading.losses import source_losses
from dragoman.formats.results import Conversation

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I"),
    0xC7: ("object", ">B"), 0xC8: ("object", ">H"), 0xC9: ("object", ">I"),
    0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip
_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_MODELS = (4, 5)
"""The codes of pydantic models: module, class, fields, method."""
FORMAT = "langgraph"
_CHANNEL = "messages"
_STATES = (
    "v", "ts", "id", "channel_versions", "versions_seen", "updated_channels", "pending_sends", "current_tasks",
    "metadata",
)  # fmt: skip


def unpack(data: bytes) -> Any:
    """Return the value. A model of pydantic is an object in the form of LangChain's `dumpd`, with its class.

    Raises FormatError if the bytes are not MessagePack, or are nested too deep.
    """
    try:
        reader = _Reader(data)
        value = reader.value(0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not valid MessagePack: {error}") from None
    if reader.position != len(data):
        raise FormatError(f"this is not valid MessagePack: it ends at byte {reader.position}")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DOCUMENT_DEPTH:
            raise FormatError(f"this is nested deeper than {MAX_DOCUMENT_DEPTH} levels")
        code = self._bytes(1)[0]
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 0x100
        if code in _LENGTHS:
            kind, size = _LENGTHS[code]
            return self._sized(kind, int(self._number(size)), depth)
        if 0xD4 <= code <= 0xD8:
            return self._sized("object", 1 << (code - 0xD4), depth)
        kind = "map" if code < 0x90 else "list" if code < 0xA0 else "text"
        if code >= 0xC0:
            raise FormatError(f"this is not valid MessagePack: {code:#x} at byte {self.position - 1}")
        return self._sized(kind, code & (0x1F if kind == "text" else 0x0F), depth)

    def _sized(self, kind: str, size: int, depth: int) -> Any:
        match kind:
            case "text":
                return self._bytes(size).decode()
            case "bytes":
                return self._bytes(size).hex()
            case "list":
                return [self.value(depth + 1) for _ in range(size)]
            case "map":
                return {str(self.value(depth + 1)): self.value(depth + 1) for _ in range(size)}
            case _:
                code = self._bytes(1)[0]
                content = _Reader(self._bytes(size)).value(depth + 1)
                if not isinstance(content, list) or len(content) < 3:
                    return content
                module, name, fields = content[:3]
                if code in _MODELS and isinstance(fields, dict):  # a model, as `dumpd` writes it
                    path = [*str(module).split("."), str(name)]
                    return {"lc": 1, "type": "constructor", "id": path, "kwargs": fields}
                return fields

    def _number(self, size: str) -> int | float:
        number: int | float = struct.unpack(size, self._bytes(struct.calcsize(size)))[0]
        return number

    def _bytes(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise IndexError(f"it ends inside a value, at byte {len(self._data)}")
        taken = self._data[self.position : end]
        self.position = end
        return taken


def is_checkpoint(data: bytes) -> bool:
    """Whether the bytes begin as a checkpoint in MessagePack: a map whose first key is the version."""
    return data[:1] >= b"\x81" and data[:1] <= b"\x8f" and data[1:3] == b"\xa1v" and b"\xaechannel_values" in data


@typed_errors
def from_langgraph(document: Any) -> list[Conversation]:
    """Return the conversation in the channel ``messages`` of a checkpoint. Raises FormatError, with a path."""
    if isinstance(document, (bytes, bytearray)) and is_checkpoint(bytes(document)):
        document = unpack(bytes(document))
    native = parse(document, format_name=FORMAT)
    if not isinstance(native, dict):
        raise FormatError(f"a checkpoint must be an object, not {kind_of(native)}")
    checkpoint = Fields(native, "$", FORMAT)
    checkpoint.ignore(*_STATES)
    values = checkpoint.object("channel_values")
    messages = values.take(_CHANNEL) if values is not None else None
    if values is None or not isinstance(messages, list):
        raise FormatError(f"a checkpoint must have a channel {_CHANNEL!r} with a list", path="$.channel_values")
    for name in values.rest():
        reason = "a channel of a graph other than its messages is left out"
        source_losses().add(f"{values.path}.{name}", reason)
    checkpoint.close()
    return [Conversation("1", from_langchain(messages))]


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
