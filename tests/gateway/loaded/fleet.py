"""The gateway under load, as an operator runs it: a process with workers, before a provider that costs little."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from dragoman import Store
from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget, parse_limit
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance
from tests.gateway.upstream import PATIENCE
from tests.unit.limits.redis_server import own_name

_START_SECONDS = 120.0
_SERVE = "from dragoman_gateway.server.command import serve; serve(workers={workers})"
_FILE = """
store = "{store}"
[providers.openai-chat]
base_url = "{provider}/slow/v1"
max_retries = 0
[gateway]
port = {port}
database = "{database}"
max_requests = 1000
share = 1.0
[gateway.keys]
required = true
{counters}
[gateway.models]
house = "openai-chat:gpt-4.1"
{more}
"""


@dataclass(slots=True)
class Loaded:
    """The running gateway. ``port`` is where it listens, and ``keys`` makes its keys."""

    port: int
    keys: KeyStore
    store: Store
    _process: "subprocess.Popen[bytes]"
    _file: Path
    _text: str
    admin: str
    """The secret of an admin key."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create_key(self, *budgets: str, limits: Sequence[str] = (), **fields: Any) -> str:
        """Return the secret of a new key."""
        allowance = Allowance(tuple(map(parse_budget, budgets)), tuple(map(parse_limit, limits)))
        return self.keys.create(allowance=allowance, **fields)[1]

    def samples(self, name: str) -> list[Sample]:
        text = httpx.get(f"{self.url}/metrics", timeout=PATIENCE, trust_env=False).text
        families = text_string_to_metric_families(text)
        return [sample for family in families for sample in family.samples if sample.name == name]

    def versions(self) -> dict[str, str]:
        """Return the configuration of each worker, by its process."""
        return {each.labels["worker"]: each.labels["version"] for each in self.samples("dragoman_configuration")}

    def write(self, more: str) -> None:
        """Write another configuration."""
        self._file.write_text(self._text.format(more=more))

    def reload(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over the samples with these labels."""
        found = self.samples(name)
        return sum(each.value for each in found if labels.items() <= each.labels.items())

    def page(self) -> str:
        """Return the page that an operator sees."""
        auth = ("", self.admin)
        return httpx.get(f"{self.url}/gateway/", auth=auth, timeout=PATIENCE, trust_env=False).text

    def drain(self) -> int:
        """End the process in order, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)

    def logged(self) -> str:
        return (self._file.parent / "log").read_text(errors="replace")


@contextmanager
def loaded(
    place: str,
    redis: str | None,
    *,
    workers: int = 2,
    store: str | None = None,
    through: str | None = None,
    max_file: int | None = None,
) -> Iterator[Loaded]:
    """Yield a gateway with a database and a store at that place. It ends in order.

    ``store`` is another place for the store, ``through`` the address by which the gateway reaches the place, and
    ``max_file`` the most bytes that a file of it may have, as on a disk that is full.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        provider = subprocess.Popen([sys.executable, "-m", "tests.benchmarks.mock_provider"], stdout=subprocess.PIPE)
        stack.callback(_end, provider)
        assert provider.stdout is not None
        address = f"http://127.0.0.1:{provider.stdout.readline().decode().strip()}"
        database = Database(place, timeout=PATIENCE)
        stack.callback(database.close)
        keys = KeyStore(database)
        _, admin = keys.create(name="admin", admin=True)
        counters = "" if redis is None else f'counters = "{redis}"\ncounters_name = "{own_name()}"'
        text = _FILE.replace("{more}", "{{more}}").format(
            store=store or through or place, provider=address, port=0, database=through or place, counters=counters
        )
        file = folder / "dragoman.toml"
        file.write_text(text.format(more=""))
        opened = stack.enter_context(Store(store or place))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVE.format(workers=workers)],
                env={**os.environ, "DRAGOMAN_CONFIG": str(file), "OPENAI_API_KEY": "sk-of-the-provider"},
                stderr=log,
                preexec_fn=None if max_file is None else partial(_limit_files, max_file),
            )
        stack.callback(_end, process)
        running = Loaded(_port(folder / "log"), keys, opened, process, file, text, admin)
        deadline = time.monotonic() + _START_SECONDS
        while len(running.versions()) < workers:
            assert time.monotonic() < deadline, "not all workers have started"
            time.sleep(0.1)
        yield running


def _limit_files(size: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _port(log: Path) -> int:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("Dragoman gateway: ")]
        if lines:
            return int(lines[0].rpartition(":")[2])
        time.sleep(0.05)
    raise RuntimeError(log.read_text(errors="replace")[-1000:])


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    finally:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
