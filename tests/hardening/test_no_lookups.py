"""No import and no local work asks the network for anything: packages that could report their use do not.

datafog has code for telemetry, and openvino starts a child that reports its import. Each program here runs in a
process of its own, with a hook that every socket and every child of Python passes.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

HOOK = """
import os, sys

def watch(event, arguments):
    if event in WATCHED and not (event == "socket.connect" and isinstance(arguments[1], (str, bytes))):
        os.write(1, f"{event} {arguments!r:.200}\\n".encode())

WATCHED = {"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto", "os.fork", "os.posix_spawn"}
sys.addaudithook(watch)
"""
PROGRAMS = {
    "the library": (
        "dragoman",
        """
import importlib, pkgutil, dragoman, dragoman_adapters
for package in (dragoman, dragoman_adapters):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "__main__" not in module.name and ".migrations" not in module.name:
            try:
                importlib.import_module(module.name)
            except ImportError:
                pass
""",
    ),
    "personal data": (
        "datafog",
        """
from dragoman.policy.plugins.finding import personal_data
assert list(personal_data()("Write to ada@example.org"))
""",
    ),
    "the model's runtime": (
        "openvino_genai",
        """
from dragoman.local.model import _import_runtime
assert _import_runtime().LLMPipeline
""",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_looked_up(name: str) -> None:
    package, program = PROGRAMS[name]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", HOOK + program], env=environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout == ""


def test_the_hook_sees_a_lookup() -> None:
    """Otherwise the test above could not fail."""
    program = (
        HOOK + "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 1), 1)\nexcept OSError:\n    pass\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "socket.getaddrinfo" in ran.stdout
