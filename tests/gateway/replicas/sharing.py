"""What replicas share while nothing fails: envelopes, stored responses, limits, budgets and revocations."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from sqlalchemy import Connection, func, select

from dragoman_gateway.database.tables import reservations, spend
from tests.gateway.cases.talk import PATHS, Talk, again, question, tool
from tests.gateway.replicas.fleet import Fleet
from tests.gateway.replicas.rows import Row
from tests.gateway.scripted import JSON, WIRES, Answer, Received, answer_with, reply
from tests.gateway.upstream import PATIENCE

INPUT, OUTPUT, MOST = 5, 9, 50
"""The tokens that the provider counts for each request, and the output that a request allows."""
REVOKED_SECONDS = 5.0
_STATE = b"c2ln"
"""What the scripted providers sign and encrypt with."""
_BEHIND = {
    "anthropic": ("responses-model", "google-model", "deepseek-model"),
    "openai": ("messages-model", "google-model", "deepseek-model"),
    "openai-chat": ("messages-model", "responses-model", "google-model"),
}
"""Models of other wires, by the client's."""


def rows(fleet: Fleet) -> Iterator[Row]:
    """Yield what holds across the replicas."""
    yield from envelopes(fleet)
    yield stored(fleet)
    yield background(fleet)
    yield limits(fleet)
    yield budgets(fleet)
    yield revocation(fleet)


def envelopes(fleet: Fleet) -> Iterator[Row]:
    """A conversation that changes its replica reaches the provider as one that stays: ids, signatures and reasoning."""
    secret = fleet.create_key()[1]
    calls = (("weather", {"city": "Bern"}),)
    fleet.upstream.script = answer_with(reply("Let me see.", thinking=("Because.",), calls=calls))
    headers = {"x-api-key": secret}
    with ExitStack() as stack:
        talks = [stack.enter_context(Talk(each.url, fleet.upstream)) for each in fleet.replicas]

        def ask(talk: Talk, wire: str, model: str, **fields: Any) -> Any:
            body = {**question(wire, model), "tools": [tool(wire)], "stream": True, **fields}
            return talk.post(wire, PATHS[wire], body, streamed=True, headers=headers)

        for wire, models in _BEHIND.items():
            same = with_state = 0
            for number, model in enumerate(models):
                first, second = talks[number % len(talks)], talks[(number + 1) % len(talks)]
                sent = []
                for other in (first, second):
                    seen = ask(first, wire, model).seen
                    assert ask(other, wire, model, **again(wire, seen)).status == 200
                    sent.append(fleet.upstream.requests[-1].raw)
                same += sent[0] == sent[1]
                with_state += _STATE in sent[1]
            yield Row(
                f"second turns on another replica, client of {wire}",
                f"{same} of {len(models)} as on the first one, {with_state} with state",
                "all; state where the model's wire has some",
                same == len(models) and with_state > 0,
            )


def stored(fleet: Fleet) -> Row:
    """A response that one replica stored is continued, read and deleted on the others."""
    secret = fleet.create_key()[1]
    fleet.upstream.script = answer_with(reply("Yes."))
    clients = [fleet.http(number, secret) for number in range(len(fleet.replicas))]
    ids: list[str] = []
    for number in range(6):
        body: dict[str, Any] = {"model": "messages-model", "input": f"turn-{number}"}
        if ids:
            body["previous_response_id"] = ids[-1]
        ids.append(clients[number % len(clients)].post("/v1/responses", json=body).raise_for_status().json()["id"])
    history = [f"turn-{number}" in fleet.upstream.requests[-1].raw.decode() for number in range(6)]
    read = [client.get(f"/v1/responses/{each}").status_code for client in clients for each in ids]
    clients[-1].delete(f"/v1/responses/{ids[0]}").raise_for_status()
    gone = [client.get(f"/v1/responses/{ids[0]}").status_code for client in clients]
    holds = all(history) and set(read) == {200} and set(gone) == {404}
    found = f"{sum(history)} turns in the history, {read.count(200)} of {len(read)} reads, {gone.count(404)} deleted"
    return Row("a stored conversation over all replicas", found, "all", holds)


def background(fleet: Fleet) -> Row:
    """A background response is followed on a second replica, and cancelled on a third one."""
    secret = fleet.create_key()[1]
    answer = WIRES["anthropic"].stream(reply("It ", "rains."))
    begun = answer.rindex(b"event: content_block_delta")  # behind the first text
    fleet.upstream.script = lambda request: Answer(
        [answer[:begun], 60.0 if b"long" in request.raw else 0.5, answer[begun:]]
    )
    clients = [fleet.http(number, secret) for number in range(len(fleet.replicas))]
    ids = []  # a response runs on if its client leaves
    for name in ("short", "long"):
        asked = {"model": "messages-model", "input": f"A {name} answer", "background": True, "stream": True}
        with clients[0].stream("POST", "/v1/responses", json=asked) as response:
            line = next(line for line in response.iter_lines() if line.startswith("data:"))
            ids.append(json.loads(line[5:])["response"]["id"])
    cancelled = clients[2].post(f"/v1/responses/{ids[1]}/cancel").raise_for_status().json()["status"]
    events = clients[1].get(f"/v1/responses/{ids[0]}", params={"stream": "true"}).raise_for_status().text
    numbers = [json.loads(line[5:])["sequence_number"] for line in events.splitlines() if line.startswith("data:")]
    complete = numbers == list(range(len(numbers))) and "response.completed" in events
    states = {client.get(f"/v1/responses/{ids[1]}").json()["status"] for client in clients}
    found = f"{len(numbers)} events{' to the end' if complete else ''}; {cancelled}, then {', '.join(sorted(states))}"
    return Row(
        "a background response, followed and cancelled elsewhere",
        found,
        "all events; cancelled everywhere",
        complete and states == {"cancelled"},
    )


def limits(fleet: Fleet) -> Row:
    """Requests on all replicas count together."""
    secret = fleet.create_key(limits=("100/day closed",))[1]
    fleet.upstream.script = answer_with(reply("Yes."))
    clients = [fleet.http(number, secret) for number in range(len(fleet.replicas))]
    late = []

    def ask(number: int) -> int:
        while True:  # on a busy machine, the counters may take longer than they are waited for
            response = clients[number % len(clients)].post("/v1/chat/completions", json=_short("limited"))
            if response.status_code != 503:
                return response.status_code
            late.append(number)  # it may be counted all the same
            time.sleep(0.2)

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(ask, range(30)))
    found = f"{statuses.count(200)} passed, {statuses.count(429)} refused, {len(late)} counted too late"
    holds = 10 - len(late) <= statuses.count(200) <= 10 and set(statuses) <= {200, 429}
    return Row("30 requests under a limit of 100/day", found, "10 at once: a tenth", holds)


def budgets(fleet: Fleet) -> Row:
    """Parallel requests on all replicas never spend the same money, and the provider counts what is booked."""
    most = 700
    key, secret = fleet.create_key(f"{most} tokens")
    fleet.upstream.script = counted
    clients = [fleet.http(number, secret) for number in range(len(fleet.replicas))]
    before = len(fleet.upstream.requests)

    def ask(number: int) -> int:
        body = _short("budget", stream=number % 2 == 0)
        return clients[number % len(clients)].post("/v1/chat/completions", json=body).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(ask, range(80)))
    provider = (INPUT + OUTPUT) * (len(fleet.upstream.requests) - before)
    booked, reserved = settled(fleet, f"key:{key}")
    found = f"{statuses.count(200)} passed: the provider counts {provider}, booked are {booked}, reserved {reserved}"
    holds = set(statuses) == {200, 429} and provider == booked <= most and reserved == 0
    return Row(f"80 requests under a budget of {most} tokens", found, f"at most {most}, all booked", holds)


def revocation(fleet: Fleet) -> Row:
    """A revoked key is refused by all replicas in time, each of which has just used it."""
    key, secret = fleet.create_key()
    fleet.upstream.script = answer_with(reply("Yes."))
    clients = [fleet.http(number, secret) for number in range(len(fleet.replicas))]
    for client in clients:
        client.get("/v1/models").raise_for_status()
    fleet.keys.revoke(key)
    latest = refused_after(clients, time.monotonic())
    return Row("a revoked key, used everywhere", f"last passes {latest:.1f} s later", "5 s", latest < REVOKED_SECONDS)


def refused_after(clients: list[Any], revoked_at: float) -> float:
    """Return how many seconds after its revocation a key began its last request that passed."""
    latest = 0.0
    for client in clients:
        while (since := time.monotonic() - revoked_at) < REVOKED_SECONDS + 1:
            if client.get("/v1/models").status_code == 401:
                break
            latest = max(latest, since)
            time.sleep(0.05)
    return latest


def counted(request: Received, pause: float = 0.02) -> Answer:
    """Answer as a provider that counts the same tokens for each request."""
    sample, wire = reply("It ", "rains.", input_tokens=INPUT, output_tokens=OUTPUT), WIRES[request.wire]
    if not request.is_streamed:
        return Answer([wire.whole(sample)], media_type=JSON)
    stream = wire.stream(sample)
    half = len(stream) // 2
    return Answer([stream[:half], pause, stream[half:]])


def settled(fleet: Fleet, scope: str, seconds: float = PATIENCE) -> tuple[int, int]:
    """Return the tokens that are booked and reserved, when all that can be booked is.

    One statement reads both: between two of them, the last reservation could become spend that neither has seen.
    """
    tables = (spend, reservations)
    sums = [select(func.sum(each.c.tokens)).where(each.c.scope == scope).scalar_subquery() for each in tables]

    def work(connection: Connection) -> tuple[int, int]:
        booked, reserved = connection.execute(select(*sums)).one()
        return int(booked or 0), int(reserved or 0)

    deadline = time.monotonic() + seconds
    while True:
        booked, reserved = fleet.database.run(work, writes=False)
        if reserved == 0 or time.monotonic() > deadline:
            return booked, reserved
        time.sleep(0.05)


def _short(text: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "chat-model", "messages": messages, "max_tokens": MOST, **fields}
