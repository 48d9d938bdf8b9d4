"""Holds what requests spent until it is stored: exactly once, even if the database's answer is lost."""

from collections import deque
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import uuid4

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Amount:
    """Dollars and tokens. ``estimated_usd`` is the part of the dollars that no provider's report and price confirm."""

    usd: Decimal = _ZERO
    tokens: int = 0
    estimated_usd: Decimal = _ZERO

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.usd + other.usd, self.tokens + other.tokens, self.estimated_usd + other.estimated_usd)

    def to_json(self) -> dict[str, Any]:
        """Return dollars as text: JSON numbers are floats to most readers."""
        fields = {"usd": format(self.usd, "f"), "tokens": self.tokens}
        return fields | ({"estimated_usd": format(self.estimated_usd, "f")} if self.estimated_usd else {})


LEAST = Amount(tokens=1)
"""The amount that each request needs, whatever its content."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a request spent, for each of its scopes. It ends the reservation with that id, which ``reserved`` names the
    scopes of."""

    id: str
    scopes: tuple[str, ...]
    day: int
    amount: Amount
    requests: int
    reserved: AbstractSet[str] = frozenset()


@dataclass(slots=True)
class Batch:
    """Bookings that one transaction stores under one id. If its outcome is unknown, the same batch is tried again."""

    bookings: deque[LedgerEntry]
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def keys(self) -> AbstractSet[str]:
        """The scopes that it changes."""
        return {scope for each in self.bookings for scope in (*each.scopes, *each.reserved)}


class LedgerEntries:
    """Bookings that wait. The oldest ones are dropped above ``capacity``."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._tried: deque[Batch] = deque()
        self._new: deque[LedgerEntry] = deque()

    def __len__(self) -> int:
        return len(self._new) + sum(len(batch.bookings) for batch in self._tried)

    @property
    def scopes(self) -> set[str]:
        """The scopes that waiting bookings change."""
        return set[str]().union(*(batch.keys for batch in (*self._tried, Batch(self._new))))

    def add(self, booking: LedgerEntry) -> bool:
        """Add a booking. Returns whether the oldest one had to be dropped."""
        self._new.append(booking)
        if len(self) <= self._capacity:
            return False
        if not self._tried:
            self._new.popleft()
            return True
        self._tried[0].bookings.popleft()
        if not self._tried[0].bookings:
            self._tried.popleft()
        return True

    def take(self, blocked: AbstractSet[str] = frozenset()) -> list[Batch]:
        """Return the waiting bookings that do not change these scopes, and keep the rest."""
        taken = [batch for batch in self._tried if blocked.isdisjoint(batch.keys)]
        self._tried = deque(batch for batch in self._tried if batch not in taken)
        free, held = deque[LedgerEntry](), deque[LedgerEntry]()
        for each in self._new:
            is_free = blocked.isdisjoint(each.scopes) and blocked.isdisjoint(each.reserved)
            (free if is_free else held).append(each)
        self._new = held
        if free:
            taken.append(Batch(free))
        return taken

    def put_back(self, batches: Iterable[Batch]) -> None:
        """Keep batches that are not known to be stored."""
        self._tried.extend(batches)
