"""MessagePack as LangGraph's checkpoints have it: JSON types, and objects as their fields. Nothing is instantiated.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md and langgraph/checkpoint/serde/jsonplus.py, 4.3.
"""

import struct
from typing import Any

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.errors import FormatError

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
                return _object(code, self._bytes(size), depth)

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


def _object(code: int, data: bytes, depth: int) -> Any:
    """Return an object as JSON: a model as `dumpd` writes it, anything else as its arguments."""
    reader = _Reader(data)
    content = reader.value(depth + 1)
    if code in _MODELS and isinstance(content, list) and len(content) >= 3 and isinstance(content[2], dict):
        module, name, fields = content[:3]
        return {"lc": 1, "type": "constructor", "id": [*str(module).split("."), str(name)], "kwargs": fields}
    if isinstance(content, list) and len(content) >= 3:
        return content[2]  # module, class, arguments
    return content
