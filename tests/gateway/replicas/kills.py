"""Replicas that are killed at random moments, in the middle of requests and streams, while clients go on.

Some clients hold a stored conversation each, some spend a budget, and keys are revoked. What a client received whole
counts as acknowledged.
"""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy import update

from dragoman_gateway.database.tables import reservations
from tests.gateway.replicas.fleet import Fleet, Replica
from tests.gateway.replicas.rows import Row
from tests.gateway.replicas.sharing import INPUT, MOST, OUTPUT, counted, refused_after, settled

_EACH = INPUT + OUTPUT
_BUDGET = 1500
_TALKERS, _SPENDERS = 3, 3
_MODELS = ("chat-model", "messages-model", "google-model")
_LONGEST_PAUSE = 0.6
_PROMPT = re.compile(r"talker-\d+ turn-\d+")


@dataclass(slots=True)
class Talker:
    """A client with one conversation. ``prompts`` and ``ids`` are of the turns that it received whole."""

    number: int
    prompts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    forgotten: int = 0
    """Turns that were refused because a replica did not know a turn that was acknowledged."""


@dataclass(slots=True)
class Budget:
    """A key with a budget, until it is spent."""

    key: str
    secret: str
    marker: str
    received: int = 0


class Clients:
    """Ask whichever replica lives, as behind a balancer, until they are ended."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._chance = random.Random(seed)
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self.talkers = [Talker(number) for number in range(_TALKERS)]
        self.secret = fleet.create_key()[1]
        self.budgets = [self._new_budget(0)]
        self.broken = 0
        """Requests whose reply broke off, or never came."""
        self.latest_use = 0.0
        """Seconds from a revocation to the last request that passed."""
        self.revoked = 0

    def end(self) -> None:
        self._ends.set()

    def talk(self, talker: Talker) -> None:
        """Go on with a conversation, whole and streamed in turn."""
        turn = 0
        while not self._ends.is_set():
            turn += 1
            prompt = f"talker-{talker.number} turn-{turn}"
            body: dict[str, Any] = {"model": _MODELS[turn % len(_MODELS)], "input": prompt, "max_output_tokens": MOST,
                                    "stream": turn % 2 == 0}  # fmt: skip
            if talker.ids:
                body["previous_response_id"] = talker.ids[-1]
            status, text = self._post("/v1/responses", self.secret, body)
            response = _final_response(text) if status == 200 else None
            if response is not None and response["status"] == "completed":
                talker.prompts.append(prompt)
                talker.ids.append(response["id"])
            talker.forgotten += status == 400

    def spend(self, number: int) -> None:
        """Spend the newest budget, and take a new one as soon as it is refused."""
        while not self._ends.is_set():
            budget = self.budgets[-1]
            messages = [{"role": "user", "content": f"{budget.marker} of {number}"}]
            stream = self._chance.random() < 0.5
            body = {"model": "chat-model", "messages": messages, "max_tokens": MOST, "stream": stream}
            status, text = self._post("/v1/chat/completions", budget.secret, body)
            if status == 200 and (not stream or text.rstrip().endswith("[DONE]")):
                with self._lock:
                    budget.received += 1
            elif status == 429:
                with self._lock:
                    if budget is self.budgets[-1]:
                        self.budgets.append(self._new_budget(len(self.budgets)))

    def revoke(self) -> None:
        """Use keys, revoke them, and see when the last replica refuses them."""
        while not self._ends.is_set():
            key, secret = self._fleet.create_key()
            for _ in self._fleet.replicas:
                self._post("/v1/models", secret, None)
            self._fleet.keys.revoke(key)
            revoked_at = time.monotonic()
            clients = [_Living(replica, secret) for replica in self._fleet.replicas]
            self.latest_use = max(self.latest_use, refused_after(clients, revoked_at))
            self.revoked += 1

    def _new_budget(self, number: int) -> Budget:
        return Budget(*self._fleet.create_key(f"{_BUDGET} tokens"), marker=f"budget-{number}-")

    def _post(self, path: str, secret: str, body: Any) -> tuple[int, str]:
        """Return the status and the text of a reply that came whole; 0 for one that did not."""
        living = [url for replica in self._fleet.replicas if (url := replica.url)]
        if not living:
            time.sleep(0.05)
            return 0, ""
        method, headers = "GET" if body is None else "POST", {"authorization": f"Bearer {secret}"}
        url = self._chance.choice(living) + path
        try:
            response = httpx.request(method, url, headers=headers, json=body, timeout=30, trust_env=False)
        except httpx.HTTPError:
            self.broken += 1
            return 0, ""
        if response.status_code == 503:
            time.sleep(0.05)
        return response.status_code, response.text


class _Living:
    """A client of one replica, in whichever process it runs."""

    def __init__(self, replica: Replica, secret: str) -> None:
        self._replica = replica
        self._headers = {"authorization": f"Bearer {secret}"}

    def get(self, path: str) -> httpx.Response:
        """Return the reply; 401 while there is no process, which answers nobody."""
        try:
            return httpx.get(self._replica.url + path, headers=self._headers, timeout=30, trust_env=False)
        except (httpx.HTTPError, httpx.InvalidURL):
            return httpx.Response(401)


def rows(fleet: Fleet, kills: int, seed: int) -> Iterator[Row]:
    """Kill replicas that often, and yield what holds then."""
    chance, clients = random.Random(seed), Clients(fleet, seed)
    fleet.upstream.script = counted
    first = len(fleet.upstream.requests)
    with ThreadPoolExecutor(_TALKERS + _SPENDERS + 1) as pool:
        running = [pool.submit(clients.talk, talker) for talker in clients.talkers]
        running += [pool.submit(clients.spend, number) for number in range(_SPENDERS)]
        running.append(pool.submit(clients.revoke))
        try:
            for _ in range(kills):
                time.sleep(chance.uniform(0, _LONGEST_PAUSE))
                replica = chance.choice(fleet.replicas)
                replica.kill()
                replica.start()
        finally:
            clients.end()
        for each in running:
            each.result()
    received = Counter(text for each in fleet.upstream.requests[first:] for text in _markers(each.raw, clients))
    yield _conversations(fleet, clients, kills, first)
    yield _responses(fleet, clients)
    yield Row(f"{clients.revoked} keys revoked meanwhile", f"last passes {clients.latest_use:.1f} s later", "5 s",
              clients.latest_use < 5)  # fmt: skip
    yield from _budgets(fleet, clients, received)


def _markers(raw: bytes, clients: Clients) -> list[str]:
    return re.findall(r"budget-\d+-", raw.decode())[:1]


def _conversations(fleet: Fleet, clients: Clients, kills: int, first: int) -> Row:
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
    found = f"{turns} turns received, {clients.broken} broken: {wrong} with another history, {forgotten} refused"
    return Row(f"conversations during {kills} kills", found, "0, 0", turns > 0 and wrong == forgotten == 0)


def _responses(fleet: Fleet, clients: Clients) -> Row:
    """Each response that a client received whole can be read afterwards."""
    ids = [each for talker in clients.talkers for each in talker.ids]
    http = [fleet.http(number, clients.secret) for number in range(len(fleet.replicas))]
    read = [http[number % len(http)].get(f"/v1/responses/{each}") for number, each in enumerate(ids)]
    lost = sum(each.status_code != 200 or each.json()["status"] != "completed" for each in read)
    return Row("responses that were received", f"{lost} of {len(ids)} lost", "0", lost == 0)


def _budgets(fleet: Fleet, clients: Clients, received: Counter[str]) -> Iterator[Row]:
    """What a killed replica had reserved stands for what it did not book, and ends after two minutes."""
    over = unknown = unbooked = 0
    left: dict[str, int] = {}
    deadline = time.monotonic() + 10
    for budget in clients.budgets:
        booked, reserved = settled(fleet, f"key:{budget.key}", max(0, deadline - time.monotonic()))
        provider = received[budget.marker] * _EACH
        left[budget.marker] = reserved
        over += booked + reserved > _BUDGET
        unknown += provider > booked + reserved or budget.received * _EACH > provider
        unbooked += provider - booked
    found = f"{over} of {len(clients.budgets)} over, {unknown} with more at the provider; {unbooked} tokens not booked"
    yield Row(f"budgets of {_BUDGET} tokens: booked and reserved", found, "0, 0", over == unknown == 0)
    expired = update(reservations).values(expires_at=0)
    fleet.database.run(lambda connection: connection.execute(expired))
    first = len(fleet.upstream.requests)
    marker = max(left, key=lambda each: left[each])
    budget = next(each for each in clients.budgets if each.marker == marker)
    http = fleet.http(0, budget.secret)
    body = {"model": "chat-model", "messages": [{"role": "user", "content": "more"}], "max_tokens": MOST}
    while http.post("/v1/chat/completions", json=body).status_code == 200:
        continue
    most = _BUDGET + left[marker]
    provider = (received[marker] + len(fleet.upstream.requests) - first) * _EACH
    found = f"the provider counts {provider}; {left[marker]} were reserved by killed replicas"
    yield Row("the same after the reservations have ended", found, f"at most {most}", provider <= most)


def _final_response(text: str) -> dict[str, Any] | None:
    """Return the response of a whole reply, or of the last event of a stream that ended in order."""
    if not text.startswith(("event:", "data:", ":")):
        found: dict[str, Any] = json.loads(text)
        return found
    events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]
    return events[-1]["response"] if events and events[-1]["type"] == "response.completed" else None
