"""``python -m tests.gateway.loaded.runbook [case ...]``: each case of the runbook, injected into a running gateway.

A gateway of two workers uses PostgreSQL and Redis through relays that can part them. Each row says what an operator
sees, in the metrics, on the page and in the log, and what the gateway's clients get.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from sqlalchemy import make_url, text

from dragoman_gateway.database import Database
from dragoman_gateway.keys.balances import lock
from tests.gateway.holding import holding
from tests.gateway.loaded.fleet import Loaded, loaded
from tests.gateway.replicas.relay import Relay
from tests.gateway.replicas.rows import Row, print_rows
from tests.gateway.upstream import PATIENCE, question
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL

_SEEN_SECONDS = 30.0
_FILE_SIZE = 3 * 1024 * 1024


@dataclass(slots=True)
class Servers:
    """A gateway with the servers that it uses. ``place`` goes past the relay."""

    gateway: Loaded
    place: str
    postgres: Relay
    redis: Relay

    def ask(self, secret: str, *, path: str = "/v1/chat/completions") -> int:
        """Return the status of a request; 0 if it never came."""
        body = question("chat", "house") if "chat" in path else {"model": "house", "input": "Where is Bern?"}
        try:
            with httpx.Client(trust_env=False, timeout=PATIENCE) as client:  # a connection of its own: any worker
                headers = {"authorization": f"Bearer {secret}"}
                return client.post(self.gateway.url + path, json=body, headers=headers).status_code
        except httpx.HTTPError:
            return 0

    def lines(self, words: str) -> int:
        return sum(words in line for line in self.gateway.logged().splitlines())


Case = Callable[[Servers], Iterator[Row]]


def database_away(servers: Servers) -> Iterator[Row]:
    """Keys without a budget are answered, what is to be stored waits, and nothing is lost."""
    gateway = servers.gateway
    free, bound = gateway.create_key(), gateway.create_key("1000/month")
    both = [servers.ask(secret) for secret in (free, bound) for _ in range(4)]
    servers.postgres.part()
    statuses = [servers.ask(free) for _ in range(30)], [servers.ask(bound) for _ in range(6)]
    seen = _wait(lambda: gateway.value("dragoman_service_available", service="database") == 0)
    waits = gateway.value("dragoman_waiting")
    page = "The database of the keys does not answer" in gateway.page()
    servers.postgres.heal()
    done = _wait(lambda: _ask_and_see(servers, free, "database") and gateway.value("dragoman_waiting") == 0)
    lost, lines = gateway.value("dragoman_dropped", kind="request"), servers.lines("database does not answer")
    without, bounded = set(statuses[0]), set(statuses[1])
    found = f"{without} without and {bounded} with a budget; {waits:.0f} waited, {lost:.0f} lost; {lines} lines"
    holds = set(both) == without == {200} and bounded == {503} and lost == 0
    yield Row("the database is away", found, "{200}, {503}, 0 lost, 2 lines", holds and seen and done and lines == 2)
    yield Row("  as seen", f"metric {seen}, page {page}, recovery {done}", "seen", seen and page and done)


def counters_away(servers: Servers) -> Iterator[Row]:
    """Limits are open, and what they did not count is counted."""
    gateway = servers.gateway
    secret = gateway.create_key(limits=("1000/minute",))
    servers.ask(secret)
    servers.redis.part()
    statuses = {servers.ask(secret) for _ in range(12)}
    seen = _wait(lambda: gateway.value("dragoman_service_available", service="counters") == 0)
    counted = gateway.value("dragoman_dropped", kind="limit")
    servers.redis.heal()
    done = _wait(lambda: _ask_and_see(servers, secret, "counters"))
    found = f"{statuses}; {counted:.0f} uncounted; metric {seen}, recovery {done}"
    yield Row("the counters are away", found, "{200}", statuses == {200} and counted > 0 and seen and done)


def contention(servers: Servers) -> Iterator[Row]:
    """A scope that another holds is busy, and nothing else is."""
    gateway = servers.gateway
    one, other = gateway.create_key("1000/month", name="held"), gateway.create_key("1000/month")
    scope = f"key:{gateway.keys.find('held').id}"
    first = servers.ask(one), servers.ask(other)
    with holding(servers.place, lambda connection: lock(connection, [scope])), ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(servers.ask, one) for _ in range(4)]
        others = {servers.ask(other) for _ in range(10)}
        held = {each.result() for each in waiting}
        seen = _wait(lambda: gateway.value("dragoman_database_busy", lane="ledger", wait="lock") > 0)
        answers = gateway.value("dragoman_service_available", service="database") == 1
    after = servers.ask(one)
    found = f"{held} for the one, {others} for others; busy {seen}, available {answers}; then {after}"
    holds = first == (200, 200) and held == {503} and others == {200} and after == 200
    yield Row("a scope is locked by another program", found, "{503}, {200}, 200", holds and seen and answers)


def backlog(servers: Servers) -> Iterator[Row]:
    """The store takes nothing for a while: new requests wait, and the backlog is written afterwards."""
    gateway = servers.gateway
    secret = gateway.create_key()
    servers.ask(secret)
    table = text("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
    with holding(servers.place, lambda connection: connection.execute(table)), ThreadPoolExecutor(30) as pool:
        asked = [pool.submit(servers.ask, secret) for _ in range(30)]
        seen = _wait(lambda: gateway.value("dragoman_waiting_seconds") > 1)
        waits = gateway.value("dragoman_waiting", kind="request")
        page = "Waits to be stored: " in gateway.page()
    statuses = {each.result() for each in asked}
    done = _wait(lambda: gateway.value("dragoman_waiting") == 0)
    found = f"{statuses}; {waits:.0f} waited; metric {seen}, page {page}, written {done}"
    yield Row(
        "the store takes nothing for a while", found, "{200}, all written", statuses == {200} and seen and page and done
    )


def worker_killed(servers: Servers) -> Iterator[Row]:
    """Another one starts, and the counts stay."""
    gateway, secret = servers.gateway, servers.gateway.create_key()
    for _ in range(20):
        servers.ask(secret)
    time.sleep(1.5)  # a worker shows its counts each second
    before = gateway.value("dragoman_requests_total", status="200")
    victim = next(iter(gateway.versions()))
    os.kill(int(victim), signal.SIGKILL)
    done = _wait(lambda: victim not in gateway.versions() and len(gateway.versions()) == 2)
    after, line = gateway.value("dragoman_requests_total", status="200"), servers.lines("a worker ended with the code")
    found = f"replaced {done}, {before:.0f} requests counted before and {after:.0f} after, {line} line"
    yield Row("a worker is killed", found, "replaced, no count lost", done and after >= before and line == 1)


def reload(servers: Servers) -> Iterator[Row]:
    """A new configuration is in effect on both workers, and one with a mistake on none."""
    gateway, before = servers.gateway, set(servers.gateway.versions().values())
    gateway.write('more = "openai-chat:gpt-4.1"')
    gateway.reload()
    done = _wait(lambda: before.isdisjoint(gateway.versions().values()) and len(set(gateway.versions().values())) == 1)
    kept = set(gateway.versions().values())
    gateway.write("[gateway.mistake]\nport = 1")
    gateway.reload()
    said = _wait(lambda: servers.lines("the configuration was not reloaded") > 0)
    same = set(gateway.versions().values()) == kept
    page = next(iter(kept)) in gateway.page()
    found = f"in effect {done}, a mistake is logged {said} and changes nothing {same}, page {page}"
    yield Row("a new configuration", found, "on all workers", done and said and same and page)


def rotation(servers: Servers) -> Iterator[Row]:
    """Both secrets of a key work until the grace ends, and then the new one."""
    gateway = servers.gateway
    key, old = gateway.keys.create(name="rotated")
    first = servers.ask(old)
    _, new = gateway.keys.rotate(key.id, grace_until=datetime.now(UTC) + timedelta(seconds=5))
    during = _wait(lambda: servers.ask(new) == 200) and servers.ask(old) == 200
    ended = _wait(lambda: {servers.ask(old) for _ in range(4)} == {401}) and servers.ask(new) == 200
    yield Row(
        "a key is rotated",
        f"{first}; both work {during}, then the new one {ended}",
        "both",
        first == 200 and during and ended,
    )


def backup(servers: Servers) -> Iterator[Row]:
    """A dump that is taken while requests run, restored into another database, has the keys, the spend, the responses
    and the notes of its moment."""
    gateway, secret = servers.gateway, servers.gateway.create_key("1000/month")
    for _ in range(10):
        servers.ask(secret)
    response = httpx.post(
        f"{gateway.url}/v1/responses", json={"model": "house", "input": "Remember Bern."},
        headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE, trust_env=False,
    ).json()["id"]  # fmt: skip
    _wait(lambda: gateway.value("dragoman_waiting") == 0)
    time.sleep(1)
    spent = _spend(gateway, secret)
    with _restored(servers.place) as place, loaded(place, None, workers=1) as second:
        restored, notes = _spend(second, secret), len(second.store.list(limit=1000).sessions)
        body = {"model": "house", "input": "And Paris?", "previous_response_id": response}
        goes_on = httpx.post(
            f"{second.url}/v1/responses", json=body, headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE,
            trust_env=False,
        ).status_code  # fmt: skip
        works = Servers(second, place, servers.postgres, servers.redis).ask(secret)
    same = restored == spent
    found = f"the key gets {works}, the conversation goes on with {goes_on}, spend is equal {same}, {notes} notes"
    holds = works == goes_on == 200 and same and notes == 11
    yield Row("a backup is restored", found, "200, 200, equal, 11", holds)


def disk_full(servers: Servers) -> Iterator[Row]:
    """The store is a file that cannot grow: requests are answered, and the log says once that they wait."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/chats.db"
        with loaded(servers.place, None, workers=1, store=store, max_file=_FILE_SIZE) as gateway:
            full, secret = Servers(gateway, servers.place, servers.postgres, servers.redis), gateway.create_key()
            statuses: set[int] = set()

            def is_full() -> bool:
                statuses.add(full.ask(secret))
                return gateway.value("dragoman_waiting", kind="request") > 20

            seen = _wait(is_full, 120)
            lines = full.lines("the store does not answer")
    found = f"{statuses}; waiting {seen}, {lines} line"
    yield Row("the disk of the store is full", found, "{200}, 1 line", statuses == {200} and seen and lines == 1)


def drain(servers: Servers) -> Iterator[Row]:
    """Requests that have begun are answered, and what they spent is booked."""
    gateway, secret = servers.gateway, servers.gateway.create_key("1000/month")
    servers.ask(secret)
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(servers.ask, secret) for _ in range(40)]
        time.sleep(0.1)
        code = gateway.drain()
        statuses = [each.result() for each in asked]
    answered = 1 + statuses.count(200)
    database = Database(servers.place)
    query = text("SELECT sum(requests) FROM gateway_spend")
    booked = database.run(lambda connection: connection.execute(query).scalar_one())
    database.close()
    found = f"{answered} answered, {booked} booked, {41 - answered} sent elsewhere; exit code {code}"
    yield Row(
        "the process is told to end",
        found,
        "as many, 0",
        set(statuses) <= {200, 503, 0} and booked == answered and code == 0,
    )


CASES: dict[str, Case] = {
    "database": database_away,
    "counters": counters_away,
    "contention": contention,
    "backlog": backlog,
    "worker": worker_killed,
    "reload": reload,
    "rotation": rotation,
    "backup": backup,
    "disk": disk_full,
    "drain": drain,
}


def rows(postgres: str, redis: str, cases: Sequence[str]) -> Iterator[Row]:
    """Yield what each case shows. The last one ends its gateway."""
    for name in cases:
        with ExitStack() as stack:
            place = stack.enter_context(postgres_place(postgres))
            direct, counters = make_url(place), urlsplit(redis)
            to_postgres = stack.enter_context(Relay(direct.host or "127.0.0.1", direct.port or 5432))
            to_redis = stack.enter_context(Relay(counters.hostname or "127.0.0.1", counters.port or 6379))
            through = direct.set(host="127.0.0.1", port=to_postgres.port).render_as_string(hide_password=False)
            gateway = stack.enter_context(
                loaded(place, f"redis://127.0.0.1:{to_redis.port}{counters.path}", through=through)
            )
            yield from CASES[name](Servers(gateway, place, to_postgres, to_redis))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.loaded.runbook", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], default=[])
    options = parser.parse_args(arguments)
    postgres, redis = postgres_url(), os.environ.get(REDIS_URL)
    if postgres is None or not redis:
        print(f"{SKIP_REASON}; {HOW_TO_RUN}", file=sys.stderr)
        return 2
    return print_rows(rows(postgres, redis, options.cases or list(CASES)))


def _wait(condition: Callable[[], bool], seconds: float = _SEEN_SECONDS) -> bool:
    """Return whether something becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _ask_and_see(servers: Servers, secret: str, server: str) -> bool:
    """Return whether a server is available again: a worker knows when it has asked it."""
    for _ in range(6):
        servers.ask(secret)
    return servers.gateway.value("dragoman_service_available", service=server) == 1


def _spend(gateway: Loaded, secret: str) -> object:
    """Return what a key is told of its spend."""
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.get(f"{gateway.url}/gateway/spend", headers=headers, trust_env=False, timeout=PATIENCE).json()


@contextmanager
def _restored(place: str) -> Iterator[str]:
    """Dump a schema, restore it into another database of the server, and yield its place."""
    url = make_url(place)
    schema = str(url.query["options"]).removeprefix("-csearch_path=")
    name = f"restored_{schema[-12:]}"
    environment = {**os.environ, "PGPASSWORD": url.password or ""}
    server = ["-h", url.host or "127.0.0.1", "-p", str(url.port or 5432), "-U", url.username or ""]

    def run(*command: str) -> None:
        subprocess.run([command[0], *server, *command[1:]], env=environment, check=True, capture_output=True)

    with tempfile.TemporaryDirectory() as folder:
        dump = str(Path(folder) / "dump")
        run("pg_dump", "-d", url.database or "", "-n", schema, "-Fc", "-f", dump)
        run("createdb", name)
        try:
            run("pg_restore", "-d", name, "--no-owner", dump)
            yield url.set(database=name).render_as_string(hide_password=False)
        finally:
            run("dropdb", "--force", name)


if __name__ == "__main__":
    sys.exit(main())
