"""Claude Code before the embedded model, with the command of the quickstart in docs/gateway.md."""

import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from dragoman import AsyncClient
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving

NAME = "quickstart"
MODEL = "local:smollm2-135m"
GUIDE = Path(__file__).parents[3] / "docs" / "gateway.md"


def command() -> list[str]:
    """Return the arguments of Claude Code in the quickstart."""
    lines = GUIDE.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (found,) = (line for line in lines if line.startswith("claude "))
    return shlex.split(found)[1:]


def run_quickstart(installed: Path, limit: float = 120.0) -> tuple[str, float]:
    """Return the problem, if there is one, and the seconds. Any answer is right: a model's words are its own."""
    app = create_app(GatewaySettings(models={"*": MODEL}), client=AsyncClient())
    program = str(installed / "npm" / "node_modules" / ".bin" / "claude")
    with tempfile.TemporaryDirectory() as scratch, serving(app) as address:
        environment = {"PATH": os.environ["PATH"], "HOME": scratch, "ANTHROPIC_BASE_URL": address,
                       "ANTHROPIC_API_KEY": "none"}  # fmt: skip
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [program, *command()], env=environment, cwd=scratch, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=limit, start_new_session=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"no end after {limit:g} s", limit
        seconds = time.monotonic() - begin
    if done.returncode == 0 and done.stdout.strip():
        return "", seconds
    return f"exit code {done.returncode}: {done.stdout[-400:]} {done.stderr[-400:]}".replace("\n", " "), seconds
