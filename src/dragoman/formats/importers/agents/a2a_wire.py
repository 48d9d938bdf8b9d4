"""A2A's tasks as Protocol Buffers: the fields of a table, as the JSON that A2A defines for them.

Sources: https://a2a-protocol.org/latest/specification (a2a.proto, version 1) and
https://protobuf.dev/programming-guides/encoding.
"""

import base64
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.errors import FormatError

Table = Mapping[int, tuple[str, str]]

_TABLES: Mapping[str, Table] = {
    "task": {1: ("id", "text"), 2: ("contextId", "text"), 3: ("status", "status"), 4: ("artifacts", "artifact*"),
             5: ("history", "message*"), 6: ("metadata", "struct")},
    "message": {1: ("messageId", "text"), 2: ("contextId", "text"), 3: ("taskId", "text"), 4: ("role", "role"),
                5: ("parts", "part*"), 6: ("metadata", "struct"), 7: ("extensions", "text*"),
                8: ("referenceTaskIds", "text*")},
    "part": {1: ("text", "text"), 2: ("raw", "bytes"), 3: ("url", "text"), 4: ("data", "value"),
             5: ("metadata", "struct"), 6: ("filename", "text"), 7: ("mediaType", "text")},
    "status": {1: ("state", "number"), 2: ("message", "message"), 3: ("timestamp", "time")},
    "artifact": {1: ("artifactId", "text"), 2: ("name", "text"), 3: ("description", "text"), 4: ("parts", "part*"),
                 5: ("metadata", "struct"), 6: ("extensions", "text*")},
    "struct": {1: ("fields", "entry*")},
    "entry": {1: ("key", "text"), 2: ("value", "value")},
    "list": {1: ("values", "value*")},
    "value": {1: ("null", "number"), 2: ("number", "double"), 3: ("string", "text"), 4: ("bool", "flag"),
              5: ("struct", "struct"), 6: ("list", "list")},
    "time": {1: ("seconds", "number"), 2: ("nanos", "number")},
}  # fmt: skip
"""The fields of each message by number: the name in JSON, and the kind; a star marks a list."""
_ROLES = {1: "ROLE_USER", 2: "ROLE_AGENT"}
_VARINT, _FIXED64, _SIZED = 0, 1, 2
_WIRE = {"number": _VARINT, "flag": _VARINT, "role": _VARINT, "double": _FIXED64}
_MAX_VARINT = 10
_TASK_START = 0x0A
"""The tag of the first field, the id."""


def is_task(data: bytes) -> bool:
    """Whether the bytes are a task with all their fields known, and with messages."""
    if data[:1] != bytes([_TASK_START]):
        return False
    try:
        task = read_task(data)
    except FormatError:
        return False
    return "history" in task or "artifacts" in task or "message" in task.get("status", {})


def read_task(data: bytes) -> dict[str, Any]:
    """Return a task as JSON. Raises FormatError if the bytes are none, or have a field of a later version."""
    try:
        found = _read(data, "task", 0)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError, OSError, ValueError) as error:
        raise FormatError(f"this is not a task of A2A: {error}") from None
    assert isinstance(found, dict)
    return found


def _read(data: bytes, kind: str, depth: int) -> Any:
    if depth > MAX_DOCUMENT_DEPTH:
        raise FormatError(f"this is nested deeper than {MAX_DOCUMENT_DEPTH} levels")
    found: dict[str, Any] = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        known = _TABLES[kind].get(tag >> 3)
        if known is None:
            raise FormatError(f"a {kind} of A2A has no field {tag >> 3}")
        name, inner = known
        value, position = _field(data, position, tag & 7, inner.removesuffix("*"), depth)
        if inner.endswith("*"):
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return _finish(kind, found)


def _field(data: bytes, position: int, wire: int, kind: str, depth: int) -> tuple[Any, int]:
    if wire != _WIRE.get(kind, _SIZED):
        raise FormatError(f"a {kind} of A2A has the wire type {wire}")
    if wire == _FIXED64:
        return struct.unpack_from("<d", data, position)[0], position + 8
    number, position = _varint(data, position)
    if wire == _VARINT:
        value: Any = _ROLES.get(number, "") if kind == "role" else bool(number) if kind == "flag" else number
        return value, position
    end = position + number
    if end > len(data):
        raise IndexError("it ends inside a field")
    inner = data[position:end]
    if kind == "text":
        return inner.decode(), end
    if kind == "bytes":
        return base64.b64encode(inner).decode(), end
    return _read(inner, kind, depth + 1), end


def _finish(kind: str, found: dict[str, Any]) -> Any:
    """Return a message as JSON has it: values and structures as themselves."""
    match kind:
        case "struct":
            return {each.get("key", ""): each.get("value") for each in found.get("fields", ())}
        case "list":
            return found.get("values", [])
        case "value":
            value = next(iter(found.values()), None)
            if "null" in found:
                return None
            return int(value) if isinstance(value, float) and value.is_integer() else value
        case "time":
            time = datetime.fromtimestamp(found.get("seconds", 0), UTC)
            return time.replace(microsecond=found.get("nanos", 0) // 1000).isoformat()
        case _:
            return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for index in range(_MAX_VARINT):
        byte = data[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise FormatError("a number of A2A is longer than ten bytes")
