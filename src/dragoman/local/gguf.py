"""Reads one fact from a GGUF file: the model's context length.

The runtime silently truncates a prompt that is too long, so the limit must be known to refuse it. The format is
described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_INTEGERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9
_SUFFIX = ".context_length"


def context_length(path: Path) -> int | None:
    """Return the context length in tokens; None if the file does not state it. Raises ValueError if it is not a GGUF
    file."""
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path} is not a GGUF file")
        _version, _tensors, entries = struct.unpack("<IQQ", _read(stream, 20))
        for _ in range(entries):
            key = _read(stream, _length(stream)).decode("utf-8", "replace")
            (kind,) = struct.unpack("<I", _read(stream, 4))
            if key.endswith(_SUFFIX) and kind in _INTEGERS:
                return int(struct.unpack(_INTEGERS[kind], _read(stream, _SIZES[kind]))[0])
            _skip(stream, kind)
    return None


def _skip(stream: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        stream.seek(_length(stream), 1)
    elif kind == _ARRAY:
        (inner,) = struct.unpack("<I", _read(stream, 4))
        count = _length(stream)
        if inner in _SIZES:
            stream.seek(count * _SIZES[inner], 1)
        else:
            for _ in range(count):
                _skip(stream, inner)
    elif kind in _SIZES:
        stream.seek(_SIZES[kind], 1)
    else:
        raise ValueError(f"a GGUF value of the unknown kind {kind}")


def _length(stream: BinaryIO) -> int:
    return int(struct.unpack("<Q", _read(stream, 8))[0])


def _read(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ValueError("the GGUF file is cut off")
    return data
