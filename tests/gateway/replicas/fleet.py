"""Gateways as processes of their own, which share a PostgreSQL, a Redis and a provider, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import make_url

from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget, parse_limit
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.running.state_keys import VARIABLE, new_state_key
from tests.gateway.replicas.relay import Relay
from tests.gateway.scripted import MODELS, Upstream, provider_bases
from tests.gateway.serving import serving
from tests.gateway.upstream import PATIENCE
from tests.store.databases import postgres_place
from tests.unit.limits.redis_server import own_name

_START_SECONDS = 120.0
"""A start takes a second or two. A machine that is busy with other things may need many times that."""
_BALANCER_SECONDS = 3.0
"""How long a request may be on its way to a replica that the balancer has just taken out."""
_COMMAND = (sys.executable, "-c", "from dragoman_gateway.server.command import serve; serve()")
_MARK = "Dragoman gateway: "


class Replica:
    """One gateway. ``sources`` are folders with another version of the packages."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], sources: Sequence[Path] = ()) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._environment = dict(environment)
        self.sources = sources
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start a process, at a new port."""
        environment, path = dict(self._environment), os.environ.get("PYTHONPATH", "")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (*map(str, self.sources), path)))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(_COMMAND, env=environment, stderr=log, stdout=subprocess.DEVNULL)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Wait until the process answers."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            text = self._log.read_text(errors="replace")
            line = next((line for line in text.splitlines() if line.startswith(_MARK)), None)
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {text[-1000:]}")
            if line is not None:
                url = line.removeprefix(_MARK).strip()
                try:
                    httpx.get(f"{url}/health", timeout=5, trust_env=False)
                except httpx.HTTPError:
                    pass
                else:
                    self.url = url
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not answer: {text[-1000:]}")

    def kill(self) -> None:
        """End the process in the middle of whatever it does."""
        self._end(signal.SIGKILL)

    def replace(self, sources: Sequence[Path] = ()) -> int:
        """End the process in order, as in an update, and start another one. Return the exit code of the first."""
        self.url = ""  # the balancer sends it nothing more
        time.sleep(_BALANCER_SECONDS)
        code = self._end(signal.SIGTERM)
        self.sources = sources
        self.start()
        return code

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            code = process.wait(2 * PATIENCE)
        finally:
            process.kill()
            process.wait()
        self.url = ""
        return code


@dataclass(slots=True)
class Fleet:
    """``postgres`` and ``redis`` stand between the replicas and both servers; ``database`` goes past them."""

    replicas: list[Replica]
    upstream: Upstream
    postgres: Relay
    redis: Relay
    database: Database
    _clients: ExitStack = field(repr=False)

    @property
    def keys(self) -> KeyStore:
        return KeyStore(self.database)

    def create_key(self, *budgets: str, limits: Sequence[str] = (), **fields: Any) -> tuple[str, str]:
        """Return the id and the secret of a new key."""
        allowance = Allowance(tuple(map(parse_budget, budgets)), tuple(map(parse_limit, limits)))
        key, secret = self.keys.create(allowance=allowance, **fields)
        return key.id, secret

    def http(self, replica: int, secret: str) -> httpx.Client:
        """Return a client of one replica."""
        client = httpx.Client(
            base_url=self.replicas[replica].url,
            headers={"authorization": f"Bearer {secret}"},
            timeout=PATIENCE,
            trust_env=False,
        )
        return self._clients.enter_context(client)


@contextmanager
def fleet(
    postgres: str, redis: str, *, count: int = 3, sources: Sequence[Path] = (), **settings: Any
) -> Iterator[Fleet]:
    """Yield that many replicas, which have started. ``settings`` are of the table ``gateway.keys``."""
    with ExitStack() as stack:
        place = stack.enter_context(postgres_place(postgres))
        direct, counters = make_url(place), urlsplit(redis)
        to_postgres = stack.enter_context(Relay(direct.host or "127.0.0.1", direct.port or 5432))
        to_redis = stack.enter_context(Relay(counters.hostname or "127.0.0.1", counters.port or 6379))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = Upstream()
        provider = stack.enter_context(serving(upstream))
        database = Database(place, timeout=PATIENCE)
        stack.callback(database.close)
        database._is_migrated = True  # the replicas do that, in whichever version they are
        relayed = direct.set(host="127.0.0.1", port=to_postgres.port)
        keys = {"required": True, "max_wait": 0, "counters_name": own_name(), **settings}
        keys["counters"] = f"redis://127.0.0.1:{to_redis.port}{counters.path}"
        file = folder / "dragoman.toml"
        file.write_text(_configuration(provider, relayed.render_as_string(hide_password=False), keys))
        names = ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "DEEPSEEK")
        environment = {**os.environ, "DRAGOMAN_CONFIG": str(file), VARIABLE: new_state_key()}
        environment |= {f"{name}_API_KEY": "sk-of-the-provider" for name in names}
        replicas = [Replica(f"replica-{number}", folder, environment, sources) for number in range(count)]
        for replica in replicas:
            stack.callback(replica.kill)
            replica.start(wait=False)
        for replica in replicas:
            replica.wait()
            httpx.get(f"{replica.url}/v1/models", timeout=PATIENCE, trust_env=False)  # opens the database
        yield Fleet(replicas, upstream, to_postgres, to_redis, database, stack.enter_context(ExitStack()))


def _configuration(provider: str, database: str, keys: Mapping[str, Any]) -> str:
    bases = provider_bases(provider).items()
    lines = [f"[providers.{name}]\nbase_url = {json.dumps(base)}\nmax_retries = 0" for name, base in bases]
    lines += ["[gateway]", "port = 0", "drain_seconds = 120", f"database = {json.dumps(database)}"]
    lines += ["[gateway.keys]", *(f"{name} = {json.dumps(value)}" for name, value in keys.items())]
    lines += ["[gateway.models]", *(f"{json.dumps(name)} = {json.dumps(model)}" for name, model in MODELS.items())]
    return "\n".join(lines) + "\n"
