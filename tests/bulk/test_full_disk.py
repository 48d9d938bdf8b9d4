"""A run whose file cannot grow: what was paid for and is not stored is said at once, and sent again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.bulk import bulk
from dragoman.store import StoreError
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest
from tests.gateway.upstream import PATIENCE, whole_reply

ROWS = 400
PROGRAM = """
import json, resource, sys
from dragoman.bulk import bulk

url, output, rows, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
prompts = [f"question {number} " + "x" * 500 for number in range(rows)]
providers = {"openai-chat": {"base_url": url + "/v1", "api_key": "k"}}
try:
    bulk(prompts, "openai-chat:gpt-4.1", manifest=output, providers=providers)
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
else:
    print(json.dumps(["", ""]))
"""


def run(url: str, output: Path, size: int) -> str:
    command = [sys.executable, "-c", PROGRAM, url, str(output), str(ROWS), str(size)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout


@pytest.mark.skipif(os.name == "nt", reason="the system has no such limit")
def test_what_was_billed_and_not_stored_is_said_and_sent_again(tmp_path: Path) -> None:
    """The number that the error names is that of the rows that the provider gets twice."""
    reply = whole_reply("chat")

    def answer(request: ReceivedRequest) -> HttpReply:
        return reply

    with FaultyServer(answer) as server:
        failed = run(server.url, tmp_path / "run.db", 300_000)
        sent = len(server.requests)
        assert run(server.url, tmp_path / "run.db", 0).split('"')[1] == ""
        again = len(server.requests) - ROWS
    assert "StoreError" in failed
    told = re.search(r"(\d+) rows? w\w+ answered and billed \(\$(\d+\.\d+)\) since then", failed)
    assert told is not None, failed
    assert 0 < int(told[1]) == again < sent
    assert float(told[2]) > 0


def test_a_folder_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    """Also for the system's administrator, who may write everywhere but into a file."""
    (tmp_path / "file").touch()
    providers = {"openai-chat": {"base_url": "http://127.0.0.1:1", "api_key": "k"}}
    with pytest.raises(StoreError, match=r"cannot be kept at .*file"):
        bulk(["a"], "openai-chat:m", manifest=tmp_path / "file" / "run.db", providers=providers)  # type: ignore[arg-type]
