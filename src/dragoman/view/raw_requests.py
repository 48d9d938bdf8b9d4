"""Raw requests, line by line, without the first lines that equal those of an earlier one.

A request contains the whole history before it: in full, the page would grow quadratically.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.wire import WireRequest

_MAX_WORD = 400
"""Characters without a space; a longer word is encoded media or a signature, and is shortened."""
_SHORTENED_LENGTH = 60
_MIN_SHARED_LINES = 12
MAX_BYTES = 48 * 1024 * 1024
"""The total of request bodies on one page; later requests are left out."""
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Raw:
    """``lines`` is the number of first lines that equal those of the request ``same_as``; ``text`` is the rest."""

    address: str
    text: str
    same_as: int | None = None
    lines: int = 0


class RawRequests:
    """The requests of one page. Their numbers are those of their turns."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, list[str]]] = {}
        self._bytes = 0

    def add(self, number: int, model: str, request: WireRequest) -> Raw | None:
        """Return the request as the page shows it, or None if the page would become too large."""
        self._bytes += len(request.body)
        if self._bytes > MAX_BYTES:
            return None
        lines = _format_body(request.body).split("\n")
        address = f"{request.method} {request.path}"
        before = self._latest.get(model)
        self._latest[model] = (number, lines)
        if before is not None:
            shared = _count_shared_lines(before[1], lines)
            if shared >= _MIN_SHARED_LINES:
                return Raw(address, "\n".join(lines[shared:]), before[0], shared)
        return Raw(address, "\n".join(lines))


def _count_shared_lines(before: list[str], lines: list[str]) -> int:
    count = 0
    for one, other in zip(before, lines, strict=False):
        if one != other:
            break
        count += 1
    return count


def _format_body(body: bytes) -> str:
    try:
        return pretty(wirejson.loads(body))
    except MalformedReplyError:
        return body.decode(errors="replace")


def pretty(value: Any) -> str:
    """JSON for people: indented, with long encoded strings shortened."""
    return json.dumps(shorten(value), ensure_ascii=False, indent=2)


def shorten(value: Any) -> Any:
    """Return the value, with encoded media and the like cut to a few characters and their number."""
    if isinstance(value, dict):
        return {name: shorten(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shorten(inner) for inner in value]
    if isinstance(value, str) and len(value) > _MAX_WORD and not _SPACE.search(value):
        return f"{value[:_SHORTENED_LENGTH]}… ({len(value):,} characters)"
    return value
