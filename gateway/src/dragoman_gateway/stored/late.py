"""Keeps responses that clients have received and the database has not, because it did not answer when they ended."""

from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.logs import get_logger
from dragoman_gateway.stored.records import StoredResponse

logger = get_logger("dragoman.gateway")


class LateResponses:
    """Keeps up to ``capacity`` of them, and finds them as the database would. Older ones are dropped and counted."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_id: dict[str, StoredResponse] = {}
        self.dropped = 0
        """Responses that are not stored."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[StoredResponse]:
        """Yield those that wait, the oldest first."""
        return iter(list(self._by_id.values()))

    def __contains__(self, stored: StoredResponse) -> bool:
        return self._by_id.get(stored.id) is stored

    def add(self, stored: StoredResponse) -> None:
        self._by_id.setdefault(stored.id, stored)  # an id that exists is never overwritten: it may be another key's
        if len(self._by_id) > self._capacity:
            self.drop([next(iter(self._by_id.values()))])

    def drop(self, lost: Sequence[StoredResponse]) -> None:
        """Give up responses that cannot be stored."""
        for each in lost:
            del self._by_id[each.id]
        self.dropped += len(lost)
        if lost:
            logger.error("the database does not answer: %d responses were not stored so far", self.dropped)

    def find(self, response_id: str, owner: str) -> StoredResponse | None:
        found = self._by_id.get(response_id)
        return found if found is not None and found.owner == owner else None

    def chain(self, response_id: str | None, owner: str) -> tuple[list[StoredResponse], str | None]:
        """Return a response with those before it, the newest first, and the id of the next one, which is not here."""
        chain: list[StoredResponse] = []
        while response_id is not None and (found := self.find(response_id, owner)) is not None and found not in chain:
            chain.append(found)
            response_id = found.previous_id
        return chain, response_id

    def items(self, wanted: set[str], owner: str) -> dict[str, Any]:
        """Return items of that owner by their ids."""
        return {name: item for each in self if each.owner == owner for name, item in each.items(wanted).items()}

    def remove(self, response_id: str, owner: str) -> bool:
        """Forget a response, which is stored or deleted. Returns whether it was here."""
        if self.find(response_id, owner) is None:
            return False
        del self._by_id[response_id]
        return True
