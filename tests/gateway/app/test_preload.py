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
with scripted.gateway_before(scripted.Upstream()) as address, httpx.Client(trust_env=False, timeout=120) as client:
    client.get(address + "/health")
    before = set(sys.modules)
    reply = client.post(address + PATHS[wire], json=question(wire, model))
    assert reply.status_code == 200, reply.text
    print(*sorted(set(sys.modules) - before))
"""

RELOADED = """
import asyncio, sys
from pathlib import Path
from dragoman_gateway import app

file = Path("dragoman.toml")
gateway = app.state.gateway
before = set(sys.modules)
file.write_text(file.read_text().replace("openai-chat:gpt-4.1", "google:gemini-3-pro-preview"))
assert asyncio.run(gateway.reload())
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("wire", "model"), [("chat", "google-model"), ("messages", "chat-model"), ("responses", "messages-model")]
)
def test_the_first_request_loads_nothing(wire: str, model: str) -> None:
    """The first request loads only the few modules that open its connection."""
    command = [sys.executable, "-c", PROGRAM, wire, model]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    loaded = {name for name in ended.stdout.split() if name.startswith(("dragoman", "aiohttp"))}
    assert {name for name in loaded if not name.startswith("dragoman.transport.engines.")} == set()


def test_a_reload_loads_what_its_models_need(tmp_path: Path) -> None:
    """Before it takes the place of the old configuration, under which requests go on."""
    (tmp_path / "dragoman.toml").write_text('[gateway.models]\nhouse = "openai-chat:gpt-4.1"\n', encoding="utf-8")
    command = [sys.executable, "-c", RELOADED]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    assert "dragoman_adapters.google.adapter" in ended.stdout.split()
