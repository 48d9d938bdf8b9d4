"""Replicas that are parted from Redis, which counts limits, or from PostgreSQL, which counts budgets."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import select

from dragoman_gateway.database.tables import spend
from tests.gateway.replicas.fleet import Fleet
from tests.gateway.replicas.relay import Relay
from tests.gateway.replicas.rows import Row
from tests.gateway.replicas.sharing import MOST, counted
from tests.gateway.upstream import PATIENCE

_RETURN_SECONDS = PATIENCE
_LONGEST = 15.0
"""Seconds for which a request may be held up by a server that is away: its time-outs add up to less than 5, and a busy
machine needs some itself. Without them, the request would end with the client's own time-out."""
_MORE = 3
"""Requests of each replica during a partition."""


def rows(fleet: Fleet) -> Iterator[Row]:
    """Yield what holds while a server is away, in both ways that it can be away, and after it is back."""
    fleet.upstream.script = counted
    for reset in (False, True):
        how = "refuses" if reset else "swallows"
        yield from _redis(fleet, f"Redis {how}", reset=reset)
        yield from _postgres(fleet, f"PostgreSQL {how}", reset=reset)


def _redis(fleet: Fleet, what: str, *, reset: bool) -> Iterator[Row]:
    """Limits are open, or closed if they say so; budgets hold as always."""
    opened = fleet.create_key(limits=("1/day",))[1]
    closed = fleet.create_key(limits=("1000/day closed",))[1]
    spends = fleet.create_key("1 tokens")[1]
    before = [_after(partial(_passes, fleet, secret)) for secret in (opened, closed)]
    with _parted(fleet.redis, reset=reset):
        passed, slow = _statuses(fleet, opened)
        refused, _ = _statuses(fleet, closed)
        spent, _ = _statuses(fleet, spends)
    back = _after(lambda: _ask(fleet, 1, closed)[0] == 200 and _ask(fleet, 1, opened)[0] == 429)
    yield Row(f"{what}: a limit", f"{_count_statuses(passed)}, {slow:.1f} s at most", f"all 200, {_LONGEST:g} s",
              all(before) and set(passed) == {200} and slow < _LONGEST)  # fmt: skip
    yield Row(f"{what}: a limit that is closed", _count_statuses(refused), "all 503", set(refused) == {503})
    yield Row(f"{what}: a spent budget", _count_statuses(spent), "all 429", set(spent) == {429})
    yield Row(f"{what}: limits afterwards", f"counted {'again' if back else 'no more'}", "counted again", back)


def _postgres(fleet: Fleet, what: str, *, reset: bool) -> Iterator[Row]:
    """Budgets are closed, or open if they say so, and then their spend is booked later; known keys go on to work."""
    free = fleet.create_key()[1]
    closed = fleet.create_key("100000 tokens")[1]
    key, opened = fleet.create_key("100000 tokens open")
    for secret in (free, closed, opened):
        for number in range(len(fleet.replicas)):  # each replica learns of the keys
            _ask(fleet, number, secret)
    requests = len(fleet.replicas)
    with _parted(fleet.postgres, reset=reset):
        known, slow = _statuses(fleet, free)
        refused, _ = _statuses(fleet, closed)
        passed, _ = _statuses(fleet, opened)
        requests += passed.count(200)
    back = _after(lambda: all(_ask(fleet, number, closed)[0] == 200 for number in range(len(fleet.replicas))))
    booked = _after(lambda: _booked(fleet, key) == requests)
    yield Row(f"{what}: a key without a budget", f"{_count_statuses(known)}, {slow:.1f} s at most",
              f"all 200, {_LONGEST:g} s", set(known) == {200} and slow < _LONGEST)  # fmt: skip
    yield Row(f"{what}: a budget", _count_statuses(refused), "all 503", set(refused) == {503})
    yield Row(f"{what}: a budget that is open", _count_statuses(passed), "all 200", set(passed) == {200})
    yield Row(f"{what}: budgets afterwards", f"{'counted' if back else 'not counted'}, {_booked(fleet, key)} requests "
              "booked", f"counted, {requests} booked", back and booked)  # fmt: skip


@contextmanager
def _parted(relay: Relay, *, reset: bool) -> Iterator[None]:
    relay.part(reset=reset)
    try:
        yield
    finally:
        relay.heal()


def _statuses(fleet: Fleet, secret: str) -> tuple[list[int], float]:
    """Return the statuses of some requests to each replica, and the seconds of the longest."""
    asked = [_ask(fleet, number, secret) for _ in range(_MORE) for number in range(len(fleet.replicas))]
    return [status for status, _ in asked], max(seconds for _, seconds in asked)


def _ask(fleet: Fleet, replica: int, secret: str) -> tuple[int, float]:
    body: dict[str, Any] = {"model": "chat-model", "messages": [{"role": "user", "content": "Is it dry?"}]}
    begin = time.monotonic()
    response = fleet.http(replica, secret).post("/v1/chat/completions", json={**body, "max_tokens": MOST})
    return response.status_code, time.monotonic() - begin


def _passes(fleet: Fleet, secret: str) -> bool:
    """Return whether a request passes. On a busy machine, the counters may take longer than they are waited for."""
    return _ask(fleet, 0, secret)[0] == 200


def _after(holds: Callable[[], bool]) -> bool:
    """Return whether something holds again soon after a server is back."""
    deadline = time.monotonic() + _RETURN_SECONDS
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _booked(fleet: Fleet, key: str) -> int:
    """Return the requests of a key that are booked."""
    query = select(spend.c.requests).where(spend.c.scope == f"key:{key}")
    return fleet.database.run(lambda connection: sum(connection.execute(query).scalars()), writes=False)


def _count_statuses(statuses: list[int]) -> str:
    return ", ".join(f"{count} x {status}" for status, count in sorted(Counter(statuses).items()))
