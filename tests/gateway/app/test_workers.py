"""Two workers of one gateway: what one shows is true of both, and a new configuration is one of both."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.upstream import PATIENCE, question, whole_reply

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="the system has no such signals"),
]

WORKERS = 2
FILE = """
store = "sqlite:///{folder}/chats.db"
[providers.openai-chat]
base_url = "{address}/v1"
[gateway]
port = 0
database = "sqlite:///{folder}/gateway.db"
[gateway.models]
{name} = "openai-chat:m"
"""


class Running:
    """A gateway of two workers."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, file: Path, address: str) -> None:
        self.process, self.url, self._file, self._address = process, url, file, address

    def write(self, name: str) -> None:
        self._file.write_text(FILE.format(folder=self._file.parent, address=self._address, name=name))

    def get(self, path: str) -> httpx.Response:
        """Ask over a connection of its own, which any worker may take."""
        with httpx.Client(trust_env=False) as client:
            return client.get(self.url + path, timeout=PATIENCE)

    def ask(self, name: str) -> int:
        with httpx.Client(trust_env=False) as client:
            return client.post(f"{self.url}/v1/chat/completions", json=question("chat", name)).status_code

    def samples(self, name: str) -> list[Sample]:
        families = text_string_to_metric_families(self.get("/metrics").text)
        return [sample for family in families for sample in family.samples if sample.name == name]

    def answered(self) -> float:
        return sum(sample.value for sample in self.samples("dragoman_requests_total"))

    def board(self) -> list[Path]:
        """What each worker has written down for the others."""
        return list(Path(self._file).parent.glob("dragoman-gateway-*/worker-*.json"))

    def versions(self) -> dict[str, str]:
        """Return the configuration of each worker, by its process."""
        labels = [sample.labels for sample in self.samples("dragoman_configuration")]
        return {each["worker"]: each["version"] for each in labels}

    def reload(self) -> None:
        self.process.send_signal(signal.SIGHUP)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with started(tmp_path) as found:
        yield found


@contextmanager
def started(folder: Path) -> Iterator[Running]:
    file = folder / "dragoman.toml"
    answer = whole_reply("chat")

    def script(request: ReceivedRequest) -> HttpReply:
        return answer

    with FaultyServer(script) as server:
        environment = {**os.environ, "DRAGOMAN_CONFIG": str(file), "OPENAI_API_KEY": "sk-of-the-gateway"}
        environment |= {"TMPDIR": str(folder)}
        file.write_text(FILE.format(folder=folder, address=server.url, name="first"))
        process = subprocess.Popen(
            [sys.executable, "-c", f"from dragoman_gateway.server.command import serve; serve(workers={WORKERS})"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            url = process.stderr.readline().rpartition(": ")[2].strip()
            found = Running(process, url, file, server.url)
            wait_until(lambda: len(found.versions()) == WORKERS)
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE)
            process.stderr.close()
        assert not list(folder.glob("dragoman-gateway-*"))  # its board is gone with it


def test_each_worker_shows_what_all_have_counted_also_one_that_was_killed(running: Running) -> None:
    assert [running.ask("first") for _ in range(30)] == [200] * 30
    noted_after = time.time() + 0.5  # one worker may answer all that is asked: that it says 30 tells nothing of itself
    wait_until(lambda: all(each.stat().st_mtime > noted_after for each in running.board()))
    assert [running.answered() for _ in range(8)] == [30.0] * 8
    victim = next(iter(running.versions()))
    os.kill(int(victim), signal.SIGKILL)
    wait_until(lambda: len(running.versions()) == WORKERS and victim not in running.versions())
    assert [running.answered() for _ in range(8)] == [30.0] * 8
    assert re.search(r"answered</dt><dd>30<", running.get("/gateway/").text)


def test_all_workers_take_a_new_configuration_or_none_does(running: Running) -> None:
    """A file with a mistake changes nothing anywhere, and a signal to one worker is a signal to all."""
    before = set(running.versions().values())
    running.write("second")
    running.reload()
    wait_until(lambda: before.isdisjoint(running.versions().values()))
    assert len(set(running.versions().values())) == 1
    assert [running.ask("second") for _ in range(8)] == [200] * 8
    second = running.versions()
    Path(running._file).write_text("[gateway]\nprot = 1\n")
    running.reload()
    assert [running.ask("second") for _ in range(8)] == [200] * 8
    running.write("third")
    os.kill(int(next(iter(second))), signal.SIGHUP)
    wait_until(lambda: [running.ask("third") for _ in range(8)] == [200] * 8)
    headers = {running.get("/health").headers["x-dragoman-configuration"] for _ in range(8)}
    assert headers == set(running.versions().values())
    assert len(headers) == 1


def test_many_reloads_in_a_row_end_with_the_last_configuration(running: Running) -> None:
    for number in range(8):
        running.write(f"name-{number}")
        running.reload()
    wait_until(lambda: [running.ask("name-7") for _ in range(8)] == [200] * 8)
    assert len(set(running.versions().values())) == 1
