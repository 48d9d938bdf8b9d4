"""A gateway loads at its start what the first request would load, while all others wait for it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys, httpx
from tests.gateway import scripted
from tests.gateway.upstream import PATHS, question

wire, model = sys.argv[1:]
with scripted.gateway_before(scripted.Upstream()) as address, httpx.Client(trust_env=False) as client:
    client.get(address + "/health")
    before = set(sys.modules)
    reply = client.post(address + PATHS[wire], json=question(wire, model), timeout=30)
    assert reply.status_code == 200, reply.text
    print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("wire", "model"), [("chat", "google-model"), ("messages", "chat-model"), ("responses", "messages-model")]
)
def test_the_first_request_loads_nothing(wire: str, model: str) -> None:
    """But the few modules that open its connection."""
    command = [sys.executable, "-c", PROGRAM, wire, model]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    loaded = {name for name in ended.stdout.split() if name.startswith(("dragoman", "aiohttp"))}
    assert {name for name in loaded if not name.startswith("dragoman.transport.engines.")} == set()
