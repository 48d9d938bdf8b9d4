"""Reads token counts from a provider's usage object and ignores values that are not counts
(docs/reference/pricing.md#buckets).

An invalid usage does not fail the reply: values that cannot be read are left out and named in ``unread``, and the cost
of the reply is then a lower bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Self

from dragoman.adapter.wirejson import lookup_path, split_path
from dragoman.canonical.blocks import assemble
from dragoman.canonical.guard import copy_json, is_plain
from dragoman.canonical.log import get_logger
from dragoman.canonical.usage import TokenUsage

logger = get_logger("dragoman.adapter")

MAX_COUNT = 10**12
"""No count of one reply is larger than this."""
_MAX_DOLLARS = Decimal(10**9)
_MAX_PATH_LENGTH = 80


@dataclass(slots=True, eq=False)
class UsageReader:
    """Reads one usage object, ``native``, by dotted paths. ``unread`` names the values that are not counts."""

    native: Mapping[str, Any]
    _unread: dict[str, None] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, native: Any) -> Self | None:
        """Return None if there is no usage object, with a warning if another value is in its place."""
        if native and not isinstance(native, dict):
            logger.warning("a usage that is not an object is ignored: %s", type(native).__name__)
        return cls(native) if native and isinstance(native, dict) else None

    def __call__(self, *paths: str) -> int:
        """Return the count at the first path that has one; 0 if none has."""
        return self.optional(*paths) or 0

    def required(self, path: str) -> int:
        """Return a count that the format requires; a missing one is added to ``unread``."""
        count = self.optional(path)
        if count is None:
            self._mark_unread(path)
        return count or 0

    def optional(self, *paths: str) -> int | None:
        """Return the count at the first path that has one; None if none has."""
        for path in paths:
            value = self.native.get(path) if "." not in path else lookup_path(self.native, path)
            if type(value) is int and 0 <= value <= MAX_COUNT:  # nearly every count
                return value
            if value is not None:
                return self._count(path, value)
        return None

    def counts(self, paths: Mapping[str, str], required: str = "") -> dict[str, int | None]:
        """Return the counts at these paths of one or two names, by the names that the caller gives them; None for each
        that is missing. The format requires the one of the name ``required``: if it is missing, it is added to
        ``unread``."""
        found: dict[str, int | None] = {}
        for name, path in paths.items():
            if "." in path:
                outer, inner = split_path(path)
                details = self.native.get(outer)
                value = details.get(inner) if isinstance(details, dict) else None
            else:
                value = self.native.get(path)
            if type(value) is not int or not 0 <= value <= MAX_COUNT:
                if value is not None:
                    value = self._count(path, value)
                elif name == required:
                    self._mark_unread(path)
            found[name] = value
        return found

    def text(self, path: str) -> str | None:
        """Return a text, such as the service tier."""
        value = self.native.get(path) if "." not in path else lookup_path(self.native, path)
        if value is None or isinstance(value, str):
            return value or None
        self._mark_unread(path)
        return None

    def objects(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list; empty if there is none."""
        value = lookup_path(self.native, path)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self._mark_unread(path)
            return []
        return value

    def count_at(self, path: str, native: Any) -> int:
        """Return a count that the caller has read at that path, or 0 if it is None."""
        return 0 if native is None else self._count(path, native) or 0

    def counts_by_name(self, path: str) -> dict[str, int]:
        """Return counts by name, without those that are zero."""
        value = lookup_path(self.native, path)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._mark_unread(path)
            return {}
        return {name: count for name, each in value.items() if (count := self.count_at(f"{path}.{name}", each))}

    def dollars(self, path: str, unit: Decimal = Decimal(1)) -> Decimal | None:
        """Return the provider's own figure of the cost; ``unit`` is the worth of one in US dollars."""
        value = lookup_path(self.native, path)
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
        """Subtract cached tokens from the prompt, for providers that count them inside it."""
        rest = prompt - sum(cached)
        if rest < 0:
            self._mark_unread("more cached tokens than the prompt has")
        return max(0, rest)

    def usage(self, **fields: Any) -> TokenUsage:
        """Return the usage with these fields, with what is `unread`, and with the object as ``raw``.

        Counts and amounts must come from a reader, which has checked them: a usage without other values is not
        validated again, which would take longer than its reading. Raises pydantic.ValidationError.
        """
        unread = fields.setdefault("unread", tuple(self._unread))
        checked = is_plain(fields.get("service_tier")) and is_plain(fields.get("speed"))
        if unread or fields.get("server_tools") or not checked:
            return TokenUsage(**fields, raw=self.native)
        try:
            fields["raw"] = copy_json(self.native)
        except ValueError:  # the validation names the field as well
            return TokenUsage(**{**fields, "raw": self.native})
        return assemble(TokenUsage, {**_NO_COUNTS, "server_tools": {}, **fields}, set(fields))

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(self._unread)

    def _count(self, path: str, value: Any) -> int | None:
        """Return a count: a whole number that is not negative, which some providers write as 12.0. None for other
        values."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
            return value
        self._mark_unread(path)
        return None

    def _mark_unread(self, path: str) -> None:
        self._unread[path[:_MAX_PATH_LENGTH]] = None


_NO_COUNTS = TokenUsage().__dict__
