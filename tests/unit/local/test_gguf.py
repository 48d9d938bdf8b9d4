"""The single fact read from a GGUF file, from hand-written headers."""

import struct
from pathlib import Path

import pytest

from dragoman.local.files import context_length

UINT32, STRING, ARRAY, UINT64, FLOAT64 = 4, 8, 9, 10, 12


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def handwritten_gguf(*entries: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


BEFORE = (
    entry("general.architecture", STRING, text("llama")),
    entry("general.tags", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("b")),
    entry("general.numbers", ARRAY, struct.pack("<IQ", UINT32, 2) + struct.pack("<II", 1, 2)),
    entry("general.scale", FLOAT64, struct.pack("<d", 0.5)),
)


def test_the_context_window_is_found_after_values_of_every_kind(tmp_path: Path) -> None:
    """Strings, arrays and numbers are skipped by their length."""
    path = tmp_path / "a.gguf"
    path.write_bytes(handwritten_gguf(*BEFORE, entry("llama.context_length", UINT64, struct.pack("<Q", 8192))))
    assert context_length(path) == 8192


def test_a_file_without_a_context_window_gives_none(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(handwritten_gguf(*BEFORE))
    assert context_length(path) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04", "not a GGUF file"),
        (b"GGUF\x03", "cut off"),
        (handwritten_gguf(*BEFORE)[:-60], "cut off"),
        (handwritten_gguf(entry("x", 99, b"")), "unknown kind 99"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Incomplete headers are not guessed at."""
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        context_length(path)
