"""Clients that ask several gateways as through a balancer, and note what they received whole.

Some hold a stored conversation each, some spend a budget, and keys are revoked.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.gateway.replicas.fleet import Fleet, Replica
from tests.gateway.replicas.sharing import MOST, counted, refused_after
from tests.gateway.scripted import Script
from tests.gateway.upstream import PATIENCE

BUDGET = 1500
"""Tokens of each budget that is spent."""
LATE_SECONDS = 60.0
"""How long a response that a client has may wait for a busy database."""
_TALKERS, _SPENDERS = 3, 3
_EXPECTED = (200, 400, 401, 429)
_MODELS = ("chat-model", "messages-model", "google-model")


@dataclass(slots=True)
class Talker:
    """A client with one conversation. ``prompts`` and ``ids`` are of the turns that it received whole."""

    number: int
    prompts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    refused_since: float | None = None
    forgotten: bool = False
    """Whether no replica knew a turn that was acknowledged, for longer than a busy database takes to store it."""


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
        self.whole = 0
        """Requests that were answered, with a refusal of a spent budget or a revoked key too."""
        self.again = 0
        """Requests that a replica sent elsewhere, because it ends or cannot answer at the moment."""
        self.broken = 0
        """Requests whose reply broke off, or never came."""
        self.failed: list[str] = []
        """Replies that no client expects."""
        self.latest_use = 0.0
        """Seconds from a revocation to the last request that passed."""
        self.revoked = 0

    @contextmanager
    def asking(self, script: Script = counted) -> Iterator[None]:
        """Let all clients ask meanwhile, and the provider answer by the script."""
        self._fleet.upstream.script = script
        with ThreadPoolExecutor(_TALKERS + _SPENDERS + 1) as pool:
            running = [pool.submit(self.talk, talker) for talker in self.talkers]
            running += [pool.submit(self.spend, number) for number in range(_SPENDERS)]
            running.append(pool.submit(self.revoke))
            try:
                yield
            finally:
                self._ends.set()
            for each in running:
                each.result()

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
                talker.refused_since = None
            if status == 400:
                talker.refused_since = talker.refused_since or time.monotonic()
                talker.forgotten |= time.monotonic() - talker.refused_since > LATE_SECONDS
                time.sleep(0.1)

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
        return Budget(*self._fleet.create_key(f"{BUDGET} tokens"), marker=f"budget-{number}-")

    def _post(self, path: str, secret: str, body: Any) -> tuple[int, str]:
        """Return the status and the text of a reply that came whole; 0 for one that did not."""
        living = [url for replica in self._fleet.replicas if (url := replica.url)]
        if not living:
            time.sleep(0.05)
            return 0, ""
        method, headers = "GET" if body is None else "POST", {"authorization": f"Bearer {secret}"}
        url = self._chance.choice(living) + path
        try:
            response = httpx.request(method, url, headers=headers, json=body, timeout=PATIENCE, trust_env=False)
        except httpx.ConnectError:  # nothing was sent
            self.again += 1
            return 0, ""
        except httpx.HTTPError:
            self.broken += 1
            return 0, ""
        if response.status_code == 503:
            self.again += 1
            time.sleep(0.05)
        elif response.status_code in _EXPECTED:
            self.whole += 1
        else:
            self.failed.append(f"{response.status_code}: {response.text[:200]}")
        return response.status_code, response.text


class _Living:
    """A client of one replica, in whichever process it runs."""

    def __init__(self, replica: Replica, secret: str) -> None:
        self._replica = replica
        self._headers = {"authorization": f"Bearer {secret}"}

    def get(self, path: str) -> httpx.Response:
        """Return the reply; 401 while there is no process, which answers nobody."""
        try:
            return httpx.get(self._replica.url + path, headers=self._headers, timeout=PATIENCE, trust_env=False)
        except (httpx.HTTPError, httpx.InvalidURL):
            return httpx.Response(401)


def _final_response(text: str) -> dict[str, Any] | None:
    """Return the response of a whole reply, or of the last event of a stream that ended in order."""
    if not text.startswith(("event:", "data:", ":")):
        found: dict[str, Any] = json.loads(text)
        return found
    events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]
    return events[-1]["response"] if events and events[-1]["type"] == "response.completed" else None
