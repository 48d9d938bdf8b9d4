"""Other recorders' files as plain data: YAML with the few tags that vcrpy writes, or JSON, gzipped or not."""

import gzip
import io
import zlib
from pathlib import Path
from typing import Any

import yaml

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.testing.event_bytes import BOM

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 256 * 1024 * 1024
_MOST_NODES = 5_000_000
"""Aliases are counted as often as they are used: a few lines of them can mean a billion nodes."""

_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE):  # type: ignore[misc]
    """Data only: of vcrpy's Python tags, those of texts, tuples and byte buffers are read as what they hold."""


def _text(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


def _tuple(loader: Any, node: Any) -> Any:
    return loader.construct_sequence(node, deep=True)


def _buffer(loader: Any, node: Any) -> bytes:
    state = loader.construct_mapping(node, deep=True).get("state") or [b""]
    content = state[0]
    return content.encode() if isinstance(content, str) else bytes(content or b"")


for _name, _read in (("str", _text), ("unicode", _text), ("tuple", _tuple), ("object/new:_io.BytesIO", _buffer)):
    _Loader.add_constructor(f"tag:yaml.org,2002:python/{_name}", _read)


def load_foreign_file(path: Path) -> Any:
    """The file's data. Raises ConfigurationError where it is none, or would be too much."""
    try:
        text = _decompress_file(path.read_bytes()).removeprefix(BOM).decode()
        _check_size(text)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, zlib.error, EOFError, OSError, RecursionError) as error:
        raise ConfigurationError(f"{path.name} is no recording: {type(error).__name__}: {error!s:.300}") from None


def _decompress_file(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    with gzip.open(io.BytesIO(data)) as packed:
        found = packed.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise ConfigurationError(f"a recording of more than {_MOST_BYTES >> 20} MiB is not imported")
    return found


def _check_size(text: str) -> None:
    """Raises ConfigurationError for what is nested too deep, or grows too large when its aliases are followed."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if total > _MOST_NODES or len(opened) > MAX_DOCUMENT_DEPTH:
            raise ConfigurationError("a recording that is nested so deep, or is so large, is not imported")
