"""Runs Claude Code, or another agent for Anthropic's API, on any model. No file of it is changed.

It shows the gateway: `pip install dragoman-gateway && MODEL=openai:gpt-6.1-sol python examples/claude_code.py claude`
"""

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import httpx

MODEL = os.environ.get("MODEL", "openai:gpt-6.1-sol")


def run(command: list[str]) -> int:
    """Run a command while a gateway listens on a free port of this machine. Return its exit code."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(["dragoman", "serve", "--model", MODEL, "--port", str(port)]) as gateway:
        try:
            wait_for(address, gateway)
            environment = os.environ | {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            gateway.terminate()


def wait_for(address: str, gateway: subprocess.Popen[bytes]) -> None:
    while gateway.poll() is None:
        with suppress(httpx.ConnectError):
            httpx.get(f"{address}/health").raise_for_status()
            return
        time.sleep(0.05)
    sys.exit("The gateway did not start.")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:] or ["claude"]))
