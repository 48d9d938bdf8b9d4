"""The embedded model sends nothing out of this process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live_local, pytest.mark.exhaustive]

_PROGRAM = """
import sys

reached = []


def watch(event, arguments):
    if event.startswith("socket.") or event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"):
        reached.append(event)


sys.addaudithook(watch)

from dragoman.session import Session

with Session("local:smollm2-135m") as session:
    session.ask("What is the capital of France?", max_output_tokens=2)
print("telemetry" if "openvino_telemetry" in sys.modules else "quiet", reached)
"""


def test_running_the_model_opens_no_socket_starts_no_process_and_writes_no_id(tmp_path: Path) -> None:
    """The runtime's telemetry would do all three, from a child process, as soon as the runtime is imported."""
    environment = {**os.environ, "HOME": str(tmp_path), "CI": "", "TF_BUILD": "", "JENKINS_URL": ""}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout == "quiet []\n"
    assert list(tmp_path.iterdir()) == []
