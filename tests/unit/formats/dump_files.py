"""Files that other libraries wrote; `dumps/README.md` describes how."""

from pathlib import Path

DUMPS = Path(__file__).parent / "dumps"


def dump(name: str) -> bytes:
    return (DUMPS / name).read_bytes()


def dumps(pattern: str) -> list[Path]:
    return sorted(DUMPS.glob(pattern))
