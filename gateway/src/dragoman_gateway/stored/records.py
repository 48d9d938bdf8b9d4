"""A stored response, the statuses that it can have, and those that wait until the database answers."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from dragoman_gateway.json import loads
from dragoman_gateway.log import logger

OPEN = ("queued", "in_progress")
"""The statuses of a response that is not finished."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")

CONTINUABLE = ("completed", "incomplete")


def is_id(value: object) -> bool:
    """Whether a value can be the id of a response or an item. No database is asked for anything else."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """``input`` has the items of this turn. ``response`` is the object as the client receives it. ``streamed``: it runs
    in the background, and its events are stored."""

    id: str
    owner: str
    previous_id: str | None = None
    input: Sequence[Any] = field(default=(), repr=False)
    response: dict[str, Any] = field(repr=False)
    background: bool = False
    streamed: bool = False

    @property
    def status(self) -> str:
        return str(self.response.get("status", "completed"))

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    @property
    def output(self) -> list[Any]:
        output = self.response.get("output")
        return output if isinstance(output, list) else []

    def items(self, wanted: AbstractSet[str]) -> dict[str, Any]:
        """Return those of its items that have a wanted id, by their ids."""
        items = [each for each in (*self.input, *self.output) if isinstance(each, dict)]
        return {each["id"]: each for each in items if is_id(each.get("id")) and each["id"] in wanted}

    def listed_input(self) -> list[dict[str, Any]]:
        """Return the items of this turn as they are listed: each has an id and a type, and its content is in parts."""
        return _to_list(self.input, self.id)

    def listed_output(self) -> list[dict[str, Any]]:
        """Return the items of the response as those after it list them in their input."""
        return _to_list(self.output, f"{self.id}/output")

    def to_row(self) -> dict[str, Any]:
        """Return the columns, without the times."""
        return {
            "id": self.id,
            "owner": self.owner,
            "previous_id": self.previous_id,
            "status": self.status,
            "background": self.background,
            "streamed": self.streamed,
            "input_json": json.dumps(list(self.input)),
            "response_json": json.dumps(self.response),
        }

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> "StoredResponse":
        return cls(
            id=row["id"],
            owner=row["owner"],
            previous_id=row["previous_id"],
            input=loads(row["input_json"].encode()),
            response=loads(row["response_json"].encode()),
            background=row["background"],
            streamed=row["streamed"],
        )


class BrokenChainError(Exception):
    """The response that a later one continues is no longer stored."""

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        super().__init__(response_id)


_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call": "fc", "function_call_output": "fco"}


def with_own_ids(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with ids of which each occurs once: a page that begins after a repeated one would never end."""
    times: Counter[str] = Counter()
    found = []
    for item in items:
        times[item["id"]] += 1
        again = times[item["id"]]
        found.append(item if again == 1 else {**item, "id": f"{item['id']}_{again}"})
    return found


def _to_list(items: Sequence[Any], place: str) -> list[dict[str, Any]]:
    found = []
    for number, item in enumerate(items):
        if isinstance(item, dict):
            kind = str(item.get("type") or "message")
            digest = hashlib.sha256(f"{place}/{number}".encode()).hexdigest()[:32]
            listed = {"id": f"{_PREFIXES.get(kind, 'item')}_{digest}", **item, "type": kind}
            if kind == "message" and isinstance(text := item.get("content"), str):
                said = {"type": "output_text", "text": text, "annotations": []}
                listed["content"] = [said if item.get("role") == "assistant" else {"type": "input_text", "text": text}]
            found.append(listed)
    return found


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
