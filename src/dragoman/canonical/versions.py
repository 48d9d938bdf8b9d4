"""Reading messages of other versions. Source: docs/reference/canonical.md#versions.

Unknown fields, kinds of blocks and words are kept, so writing the message again loses nothing. Older schema
versions are upgraded on reading, one step at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic_core import from_json

from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, UnknownBlock
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, copy_json
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message_fields import SCHEMA_VERSION, MessageFields
from dragoman.canonical.words import KEPT, READING

logger = get_logger("dragoman.canonical")

_M = TypeVar("_M", bound=MessageFields)

Upgrade = Callable[[dict[str, Any]], dict[str, Any]]

UPGRADES: dict[int, Upgrade] = {}
"""The step from schema version n to n + 1, by n. Version 1 is the first, so there are none yet."""


def read_as(
    kind: type[_M], data: Mapping[str, Any] | str | bytes, *, upgrades: Mapping[int, Upgrade] | None = None
) -> _M:
    """Read a message from JSON of any version; `dragoman.messages.read_message` lists the errors."""
    # A lone surrogate raises ValueError here, and does not raise below.
    text = data.encode() if isinstance(data, str) else data
    raw = from_json(text, allow_inf_nan=False) if isinstance(text, bytes) else text
    if isinstance(raw, Mapping):
        raw = dict(raw)
    if not isinstance(raw, dict):
        raise ValueError(f"a message must be a JSON object, not a {type(raw).__name__}")
    # Known fields have their own validation; this covers the unknown ones.
    raw = upgrade(copy_json(raw, MAX_DOCUMENT_DEPTH), UPGRADES if upgrades is None else upgrades)
    kept: list[str] = []
    message = kind.model_validate(raw, extra="allow", context={**READING, KEPT: kept})
    if kept:
        logger.warning("message %s has %s: kept", one_line(message.id), ", ".join(kept))
    for unknown in _unknown_kinds(message.content):
        logger.warning("message %s holds a block of the unknown kind %r: kept as it is", one_line(message.id), unknown)
    return message


def _unknown_kinds(content: Iterable[ContentBlock]) -> Iterator[str]:
    for block in content:
        if isinstance(block, UnknownBlock):
            yield block.type
        elif isinstance(block, ToolResultBlock):
            yield from _unknown_kinds(block.content)


def upgrade(raw: dict[str, Any], upgrades: Mapping[int, Upgrade], *, current: int = SCHEMA_VERSION) -> dict[str, Any]:
    """Upgrade a raw message to the current schema version."""
    version = raw.get("schema_version", 1)
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError(f"schema_version must be an integer, not a {type(version).__name__}")
    if version > current:
        raise ValueError(f"schema version {version} is newer than {current}: upgrade dragoman to read it")
    while version < current:
        step = upgrades.get(version)
        if step is None:
            raise ValueError(f"there is no upgrade from schema version {version}")
        raw = {**step(raw), "schema_version": version + 1}
        version += 1
    return raw
