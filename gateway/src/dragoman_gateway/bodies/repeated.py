"""What an agent sends again in each request, kept for a while: its tools, and the messages so far.

A request is compared with the caller's earlier ones text by text: a part with the same text is neither parsed nor
decoded again. No caller meets what another one sent. A part is the value of a field, or an item of the history.
"""

import sys
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.answers import KeptHistory, KeptPart, SharedEncodeCache
from dragoman_gateway.json import decode_part, skip_blanks

HISTORIES = ("messages", "input", "contents")
"""The fields with the conversation, by wire."""
SMALLEST, LARGEST = 16 * 1024, 4 * 1024 * 1024
"""Bytes of the bodies that are kept. Below, there is little to save; above, one body would push out all others."""
_CONVERSATIONS = 8
"""The most conversations of one caller: an agent may have some others work for it."""
_SHORT = 256
"""Characters of a value that is parsed in less time than it is looked for."""
_PER_PART, _PER_ITEM_CHARACTER, _PER_FIELD_CHARACTER = 6000, 4, 24
"""Bytes that a part takes with all that is made of it, and for each byte of its text: schemas have many small
values."""
_ENDS = frozenset(",} \t\r\n")


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    """A part and its text."""

    text: str
    part: KeptPart


@dataclass(slots=True, eq=False)
class KeptBody:
    """The parts of one body: long values by the name of their field, and its history."""

    fields: dict[str, _Text] = field(default_factory=dict)
    history: str = ""
    """The name of the field with the history."""
    items: list[dict[str, Any]] = field(default_factory=list)
    text: str = ""
    """The text of the items, from the first one to the last."""
    ends: list[int] = field(default_factory=list)
    """Where each item ends in the text."""
    decoded: KeptHistory = field(default_factory=KeptHistory)
    """The history as it was read."""
    encodings: SharedEncodeCache = field(default_factory=SharedEncodeCache)
    """The history as it was encoded for providers of other wires."""
    block_keys: dict[int, tuple[object, str]] = field(default_factory=dict)
    """The keys of the history's blocks, by which its labels are recalled."""
    continued: "KeptBody | None" = None
    """The body whose history this one goes on with."""

    def field(self, name: str) -> KeptPart | None:
        found = self.fields.get(name)
        return None if found is None else found.part

    @property
    def size(self) -> int:
        """The bytes that the body takes at most, with what is decoded from it."""
        items = _PER_PART * len(self.items) + _PER_ITEM_CHARACTER * sys.getsizeof(self.text)
        return items + sum(_PER_PART + _PER_FIELD_CHARACTER * sys.getsizeof(each.text) for each in self.fields.values())


class RepeatedParts:
    """The bodies of all callers, in this process: at most ``max_bytes``, half of them of one caller, and each for
    ``seconds`` after it was last repeated."""

    def __init__(self, max_bytes: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()  # large bodies are read in other threads
        self._kept: OrderedDict[KeptBody, tuple[Hashable, float, int]] = OrderedDict()
        """The owner of each body, until when it is kept, and its size; the one that was used longest ago first."""
        self._owned: dict[Hashable, list[KeptBody]] = {}
        self._sizes: dict[Hashable, int] = {}
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes that all bodies take at most."""
        return self._size

    def read(self, owner: Hashable, body: bytes) -> tuple[dict[str, Any], KeptBody] | None:
        """Return the fields of a request and its parts, and keep them for the owner. Return None if the body has to be
        read as a whole: it is small or large, or not plain JSON."""
        if not SMALLEST <= len(body) <= LARGEST or not self._max_bytes:
            return None
        with self._lock:
            now = self._clock()
            while self._kept and self._kept[next(iter(self._kept))][1] <= now:
                self._drop(next(iter(self._kept)))
            known = tuple(self._owned.get(owner, ()))
        try:
            fields, kept = _read(body.decode(), known)
        except (ValueError, IndexError, RecursionError):
            return None
        self._put(owner, kept)
        return fields, kept

    def forget(self, owner: Hashable) -> None:
        """Forget all that a caller sent."""
        with self._lock:
            for kept in tuple(self._owned.get(owner, ())):
                self._drop(kept)

    def _put(self, owner: Hashable, kept: KeptBody) -> None:
        size, (earlier, kept.continued) = kept.size, (kept.continued, None)
        with self._lock:
            if earlier is not None and earlier in self._kept:
                self._drop(earlier)
            elif earlier is not None:  # another request goes on with it: each has what was made of its own history
                kept.decoded, kept.encodings = KeptHistory(), SharedEncodeCache()
            if size > self._max_bytes // 2:
                return
            own = self._owned.setdefault(owner, [])
            own.insert(0, kept)
            self._kept[kept] = owner, self._clock() + self._seconds, size
            self._sizes[owner] = self._sizes.get(owner, 0) + size
            self._size += size
            while len(own) > _CONVERSATIONS or self._sizes.get(owner, 0) > self._max_bytes // 2:
                self._drop(own[-1])
            while self._size > self._max_bytes:
                self._drop(next(iter(self._kept)))

    def _drop(self, kept: KeptBody) -> None:
        owner, _, size = self._kept.pop(kept)
        self._owned[owner].remove(kept)
        self._sizes[owner] -= size
        self._size -= size
        if not self._owned[owner]:
            del self._owned[owner], self._sizes[owner]


def _read(text: str, known: Sequence[KeptBody]) -> tuple[dict[str, Any], KeptBody]:
    """Return the fields of a JSON object, and its parts. Raises ValueError or IndexError for any other text, and for
    one that is not plain."""
    fields: dict[str, Any] = {}
    kept = KeptBody()
    position = _expect(text, skip_blanks(text, 0), "{")
    while True:
        name, position = decode_part(text, position, 1)
        if type(name) is not str or name in fields:
            raise ValueError("not a name, or one that occurs twice")
        position = _expect(text, skip_blanks(text, position), ":")
        if name in HISTORIES and text[position] == "[" and not kept.history:
            position = _read_items(text, position, name, kept, known)
            fields[name] = list(kept.items)
        else:
            fields[name], position = _read_value(text, position, name, kept, known)
        position = skip_blanks(text, position)
        if text[position] == "}":
            break
        position = _expect(text, position, ",")
    if skip_blanks(text, position + 1) != len(text):
        raise ValueError("something stands behind the object")
    return fields, kept


def _read_value(text: str, position: int, name: str, kept: KeptBody, known: Sequence[KeptBody]) -> tuple[Any, int]:
    for body in known:
        found = body.fields.get(name)
        if found is None or not text.startswith(found.text, position):
            continue
        end = position + len(found.text)
        if text[end] in _ENDS:
            kept.fields[name] = found
            return found.part.value, end
    value, end = decode_part(text, position, 1)
    if end - position > _SHORT:
        kept.fields[name] = _Text(text[position:end], KeptPart(value))
    return value, end


def _read_items(text: str, position: int, name: str, kept: KeptBody, known: Sequence[KeptBody]) -> int:
    """Read the items of a history into ``kept``. Returns the position behind them."""
    start = position = skip_blanks(text, position + 1)
    kept.history = name
    same = [(_count_same(text, position, body), body) for body in known if body.history == name]
    count, earlier = max(same, key=lambda each: each[0], default=(0, None))
    if earlier is not None and count:
        kept.items, kept.ends = earlier.items[:count], earlier.ends[:count]
        position = skip_blanks(text, start + kept.ends[-1])
        if 2 * count >= len(earlier.items):
            kept.continued, kept.decoded, kept.encodings = earlier, earlier.decoded, earlier.encodings
            kept.block_keys = dict(earlier.block_keys)
    if text[position] != "]":
        position = _expect(text, position, ",") if count else position
        while True:
            value, end = decode_part(text, position, 2)
            if type(value) is not dict:
                raise ValueError("not an item of a conversation")
            kept.items.append(value)
            kept.ends.append(end - start)
            position = skip_blanks(text, end)
            if text[position] == "]":
                break
            position = _expect(text, position, ",")
    kept.text = text[start : start + kept.ends[-1]] if kept.ends else ""
    return position + 1


def _count_same(text: str, position: int, body: KeptBody) -> int:
    """Return how many of the items of a body stand at the beginning of a history."""
    if text.startswith(body.text, position):
        return len(body.ends)
    return bisect_left(body.ends, True, key=lambda end: not text.startswith(body.text[:end], position))


def _expect(text: str, position: int, mark: str) -> int:
    """Return the position of what stands behind a mark. Raises ValueError if the mark is not there."""
    if text[position] != mark:
        raise ValueError(f"no {mark}")
    return skip_blanks(text, position + 1)
