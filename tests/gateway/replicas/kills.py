"""Replicas that are killed at random moments, in the middle of requests and streams, while clients go on.

What a client received whole counts as acknowledged.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Iterator

from sqlalchemy import update

from dragoman_gateway.database.tables import reservations
from tests.gateway.replicas.clients import BUDGET, LATE_SECONDS, Clients
from tests.gateway.replicas.fleet import Fleet
from tests.gateway.replicas.rows import Row
from tests.gateway.replicas.sharing import INPUT, MOST, OUTPUT, REVOKED_SECONDS, settled

_EACH = INPUT + OUTPUT
_LONGEST_PAUSE = 0.6
_PROMPT = re.compile(r"talker-\d+ turn-\d+")


def rows(fleet: Fleet, kills: int, seed: int) -> Iterator[Row]:
    """Kill replicas that often, and yield what holds then."""
    chance, clients = random.Random(seed), Clients(fleet, seed)
    first = len(fleet.upstream.requests)
    with clients.asking():
        for _ in range(kills):
            time.sleep(chance.uniform(0, _LONGEST_PAUSE))
            replica = chance.choice(fleet.replicas)
            replica.kill()
            replica.start()
    yield conversations(fleet, clients, f"{kills} kills", first)
    yield responses(fleet, clients)
    yield revocations(clients)
    yield from _budgets(fleet, clients, _count_by_budget(fleet, first))


def conversations(fleet: Fleet, clients: Clients, during: str, first: int) -> Row:
    """The model gets each acknowledged turn of a conversation, and no other."""
    sent: dict[str, list[str]] = {}
    for request in fleet.upstream.requests[first:]:
        if prompts := _PROMPT.findall(request.raw.decode()):
            sent[prompts[-1]] = prompts
    wrong = sum(
        sent[prompt] != talker.prompts[: place + 1]
        for talker in clients.talkers
        for place, prompt in enumerate(talker.prompts)
    )
    forgotten = sum(talker.forgotten for talker in clients.talkers)
    turns = sum(len(talker.prompts) for talker in clients.talkers)
    found = f"{turns} turns received, {clients.broken} broken: {wrong} with another history, {forgotten} forgotten"
    return Row(f"conversations during {during}", found, "0, 0", turns > 0 and wrong == forgotten == 0)


def responses(fleet: Fleet, clients: Clients) -> Row:
    """Each response that a client received whole can be read afterwards."""
    ids = [each for talker in clients.talkers for each in talker.ids]
    http = [fleet.http(number, clients.secret) for number in range(len(fleet.replicas))]
    deadline = time.monotonic() + LATE_SECONDS
    waiting = set(ids)
    while waiting and time.monotonic() < deadline:
        for number, each in enumerate(sorted(waiting)):
            read = http[number % len(http)].get(f"/v1/responses/{each}")
            if read.status_code == 200 and read.json()["status"] == "completed":
                waiting.remove(each)
    lost = len(waiting)
    return Row("responses that were received", f"{lost} of {len(ids)} lost", "0", lost == 0)


def revocations(clients: Clients) -> Row:
    """Each revoked key is refused in time, by replicas that were started meanwhile too."""
    found = f"last passes {clients.latest_use:.1f} s later"
    holds = clients.revoked > 0 and clients.latest_use < REVOKED_SECONDS
    return Row(f"{clients.revoked} keys revoked meanwhile", found, "5 s", holds)


def bookings(fleet: Fleet, clients: Clients, during: str, first: int) -> Row:
    """Replicas that end in order book what the provider counts, which is what clients received."""
    counted = _count_by_budget(fleet, first)
    provider = booked = reserved = wrong = 0
    for budget in clients.budgets:
        spent, left = settled(fleet, f"key:{budget.key}")
        requests = counted[budget.marker]
        wrong += spent != requests * _EACH or requests != budget.received
        provider, booked, reserved = provider + requests * _EACH, booked + spent, reserved + left
    found = f"the provider counts {provider}, booked are {booked}, reserved {reserved}"
    holds = provider == booked > 0 and reserved == wrong == 0
    return Row(f"{len(clients.budgets)} budgets during {during}", found, "all booked", holds)


def _count_by_budget(fleet: Fleet, first: int) -> Counter[str]:
    """Return how many requests the provider has received under each budget, by its marker."""
    return Counter(
        text for each in fleet.upstream.requests[first:] for text in re.findall(r"budget-\d+-", each.raw.decode())[:1]
    )


def _budgets(fleet: Fleet, clients: Clients, received: Counter[str]) -> Iterator[Row]:
    """What a killed replica had reserved stands for what it did not book, and ends after two minutes."""
    over = unknown = unbooked = 0
    left: dict[str, int] = {}
    deadline = time.monotonic() + 10
    for budget in clients.budgets:
        booked, reserved = settled(fleet, f"key:{budget.key}", max(0, deadline - time.monotonic()))
        provider = received[budget.marker] * _EACH
        left[budget.marker] = reserved
        over += booked + reserved > BUDGET
        unknown += provider > booked + reserved or budget.received * _EACH > provider
        unbooked += provider - booked
    found = f"{over} of {len(clients.budgets)} over, {unknown} with more at the provider; {unbooked} tokens not booked"
    yield Row(f"budgets of {BUDGET} tokens: booked and reserved", found, "0, 0", over == unknown == 0)
    expired = update(reservations).values(expires_at=0)
    fleet.database.run(lambda connection: connection.execute(expired))
    first = len(fleet.upstream.requests)
    marker = max(left, key=lambda each: left[each])
    budget = next(each for each in clients.budgets if each.marker == marker)
    http = fleet.http(0, budget.secret)
    body = {"model": "chat-model", "messages": [{"role": "user", "content": "more"}], "max_tokens": MOST}
    while http.post("/v1/chat/completions", json=body).status_code == 200:
        continue
    most = BUDGET + left[marker]
    provider = (received[marker] + len(fleet.upstream.requests) - first) * _EACH
    found = f"the provider counts {provider}; {left[marker]} were reserved by killed replicas"
    yield Row("the same after the reservations have ended", found, f"at most {most}", provider <= most)
