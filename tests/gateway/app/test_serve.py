"""`dragoman serve` as a process: it serves, reads its file again, and ends in order."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from dragoman import ConfigurationError
from dragoman.testing.faults.server import FaultyServer, Pause, sse_reply
from dragoman_gateway.server.command import serve
from tests.gateway.app.test_bad_night import ask_to_the_end, cut, wait_until
from tests.gateway.upstream import PATIENCE, question, stream_bytes

FILE = """
[providers.openai-chat]
base_url = "{address}/v1"
[gateway]
port = 0
database = "sqlite://"
[gateway.models]
{name} = "openai-chat:m"
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="the system has no such signals")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_gateway_serves_reloads_and_ends_in_order(tmp_path: Path, workers: int) -> None:
    frames = cut("chat", 0.5)
    rest = stream_bytes("chat", *(f"word{number} " for number in range(20))).removeprefix(frames)
    file = tmp_path / "dragoman.toml"
    with FaultyServer(sse_reply(frames, Pause(1.5), rest)) as server:
        file.write_text(FILE.format(address=server.url, name="before"))
        environment = {**os.environ, "DRAGOMAN_CONFIG": str(file), "OPENAI_API_KEY": "sk-of-the-gateway"}
        process = subprocess.Popen(
            [sys.executable, "-c", f"from dragoman_gateway.server.command import serve; serve(workers={workers})"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr is not None
        try:
            url = process.stderr.readline().rpartition(": ")[2].strip()

            def names() -> list[str]:
                with httpx.Client() as client:  # a connection of its own may reach another worker
                    return [model["id"] for model in client.get(f"{url}/v1/models", timeout=PATIENCE).json()["data"]]

            assert names() == ["before"]
            file.write_text(FILE.format(address=server.url, name="after"))
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: names() == ["after"] and names() == ["after"])

            def ask() -> tuple[bytes, bool]:
                """Ask until it is not a worker that answers which has not read its file again yet."""
                while b"not_found_error" in (reply := ask_to_the_end(url, "messages", body))[0]:
                    pass
                return reply

            body = question("messages", "after", stream=True)
            with ThreadPoolExecutor(1) as pool:
                begun = pool.submit(ask)
                wait_until(lambda: len(server.requests) == 1)
                os.killpg(process.pid, signal.SIGTERM)  # each process gets it, as from systemd
                received, in_order = begun.result()
            assert in_order
            assert b"message_stop" in received
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no such signals")
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Otherwise they would keep the address, and nobody could end or reload them."""
    file = tmp_path / "dragoman.toml"
    with FaultyServer(sse_reply(b"")) as server:
        file.write_text(FILE.format(address=server.url, name="before"))
        process = subprocess.Popen(
            [sys.executable, "-c", "from dragoman_gateway.server.command import serve; serve(workers=2)"],
            env={**os.environ, "DRAGOMAN_CONFIG": str(file), "OPENAI_API_KEY": "sk-of-the-gateway"},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        url = process.stderr.readline().rpartition(": ")[2].strip()

        def answers() -> bool:
            try:
                return httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
            except httpx.HTTPError:
                return False

        try:
            wait_until(answers)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()
        wait_until(lambda: not answers())


def test_a_key_that_is_missing_is_said_before_workers_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker would end over it and be replaced for ever, while clients wait at the open port."""
    file = tmp_path / "dragoman.toml"
    place = 'house = [{model = "openai-chat:m"}, {model = "openai-chat:m", key_variable = "OPENAI_API_KEY_2"}]'
    file.write_text(f"[gateway]\nport = 0\nworkers = 2\n[gateway.models]\n{place}\n")
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(file))
    monkeypatch.delenv("OPENAI_API_KEY_2", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY_2"):
        serve()
