"""The counts in a provider's usage object, read so that nothing is summed that is no count (specification D4).

A reply is not lost for a usage that makes no sense: what cannot be read is left out and named in ``unread``, and
the cost of the reply is then a lower bound.
"""

import logging
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Self

logger = logging.getLogger("dragoman.adapter")

MAX_COUNT = 10**12
"""More than this is no count of one reply, whatever it is."""
_MAX_DOLLARS = Decimal(10**9)
_MAX_PATH_LENGTH = 80


class UsageReader:
    """Reads one usage object by paths, names with dots between them. ``unread`` names what was no count."""

    def __init__(self, native: Mapping[str, Any]) -> None:
        self.native = native
        self._unread: dict[str, None] = {}

    @classmethod
    def of(cls, native: Any) -> Self | None:
        """None if there is no usage object, with a warning where something else stands in its place."""
        if native and not isinstance(native, dict):
            logger.warning("a usage that is no object is passed over: %s", type(native).__name__)
        return cls(native) if native and isinstance(native, dict) else None

    def __call__(self, *paths: str) -> int:
        """The count at the first of the paths that holds any; 0 if there is none."""
        return self.optional(*paths) or 0

    def required(self, path: str) -> int:
        """A count that the format promises: where it is missing, that is remembered."""
        count = self.optional(path)
        if count is None:
            self._mark_unread(path)
        return count or 0

    def optional(self, *paths: str) -> int | None:
        """The count at the first of the paths that holds any, None if the provider does not tell."""
        for path in paths:
            if (value := self._find(path)) is not None:
                return self._count(path, value)
        return None

    def text(self, path: str) -> str | None:
        """A word that says how a reply was served."""
        value = self._find(path)
        if value is None or isinstance(value, str):
            return value or None
        self._mark_unread(path)
        return None

    def objects(self, path: str) -> list[dict[str, Any]]:
        """The objects of a list; empty if there is none."""
        value = self._find(path)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._mark_unread(path)
            return []
        return value

    def count_at(self, path: str, native: Any) -> int:
        """A count that the caller found at that path himself; 0 if it is None."""
        return 0 if native is None else self._count(path, native) or 0

    def counts_by_name(self, path: str) -> dict[str, int]:
        """Counts by name, without those that are zero."""
        value = self._find(path)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._mark_unread(path)
            return {}
        return {name: count for name, each in value.items() if (count := self.count_at(f"{path}.{name}", each))}

    def dollars(self, path: str, unit: Decimal = Decimal(1)) -> Decimal | None:
        """What the provider says that the reply costs; ``unit`` is what one of it is in US dollars."""
        value = self._find(path)
        if value is None:
            return None
        try:
            amount = Decimal(str(value)) * unit
            if not isinstance(value, bool) and 0 <= amount < _MAX_DOLLARS:
                return amount
        except (InvalidOperation, ValueError):  # NaN cannot be compared
            pass
        self._mark_unread(path)
        return None

    def uncached(self, prompt: int, *cached: int) -> int:
        """The prompt without what was read from or written to a cache, where the provider counts that inside of it."""
        rest = prompt - sum(cached)
        if rest < 0:
            self._mark_unread("more cached tokens than the prompt has")
        return max(0, rest)

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(self._unread)

    def _find(self, path: str) -> Any:
        value: Any = self.native
        for name in path.split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    def _count(self, path: str, value: Any) -> int | None:
        """A whole number that is not negative; written as 12.0 it still is one, as some providers do."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
            return value
        self._mark_unread(path)
        return None

    def _mark_unread(self, path: str) -> None:
        self._unread[path[:_MAX_PATH_LENGTH]] = None
