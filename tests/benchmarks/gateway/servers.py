"""The gateways that are compared, each in processes of its own, before the same provider on loopback.

Others than ours are found in the folder DRAGOMAN_GATEWAYS: ``npm/`` with @portkey-ai/gateway, ``litellm/`` and
``tensorzero/`` are virtual environments with litellm[proxy] and tensorzero. ``--install FOLDER`` makes it.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

VARIABLE = "DRAGOMAN_GATEWAYS"
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
WORKERS = {"dragoman": 1, "dragoman-2": 2, "dragoman-4": 4}
"""Ours, with the number of its processes."""
SERVERS = ("bare", "dragoman", "dragoman-2", "litellm", "portkey", "tensorzero")


class NotStartedError(Exception):
    """A server ended, or opened no port."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a gateway listens. ``models`` are the names to ask for: same wire, and other wire."""

    pid: int
    port: int
    prefix: str = "/v1"
    models: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    other_headers: Mapping[str, str] = field(default_factory=dict)
    """The headers for the other wire, if they differ."""


def install(into: Path) -> None:
    """Install the other gateways with npm and uv."""
    (into / "npm").mkdir(parents=True, exist_ok=True)
    (into / "npm" / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "@portkey-ai/gateway"], cwd=into / "npm", check=True)
    for name, package in (("litellm", "litellm[proxy]"), ("tensorzero", "tensorzero")):
        subprocess.run(["uv", "venv", "-q", "--clear", "--python", "3.11", str(into / name)], check=True)
        interpreter = str(into / name / "bin" / "python")
        subprocess.run(["uv", "pip", "install", "-q", "--python", interpreter, package], check=True)


def missing(server: str) -> str | None:
    """Return why a gateway cannot run; None if it can."""
    if server.startswith(("bare", "dragoman")):
        return None
    folder = Path(os.environ.get(VARIABLE, ""))
    files = {
        "litellm": folder / "litellm" / "bin" / "litellm",
        "portkey": folder / "npm" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js",
        "tensorzero": folder / "tensorzero" / "bin" / "python",
    }
    found = os.environ.get(VARIABLE) is not None and files[server].exists()
    return None if found else f"not installed: --install FOLDER, or {VARIABLE}"


@contextmanager
def running(server: str, upstream: str) -> Iterator[Target]:
    """Run a gateway before the provider at that address, such as ``http://127.0.0.1:4321``."""
    folder = Path(os.environ.get(VARIABLE, ""))
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        port = _free_port()
        environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        models: dict[str, str] = {}
        headers: dict[str, str] = {}
        other: dict[str, str] = {}
        prefix = "/v1"
        match server:
            case "bare":
                command = [sys.executable, str(HERE / "bare_proxy.py"), str(port), upstream]
                models = {"same": "gpt-5.2"}
            case _ if server in WORKERS:
                (work / "dragoman.toml").write_text(_dragoman(upstream), encoding="utf-8")
                environment |= {"DRAGOMAN_CONFIG": str(work / "dragoman.toml"), "OPENAI_API_KEY": "none",
                                "ANTHROPIC_API_KEY": "none", "XDG_DATA_HOME": scratch}  # fmt: skip
                start = "import typer; from dragoman_gateway.server.command import serve; typer.run(serve)"
                command = [sys.executable, "-c", start, "--port", str(port), "--workers", str(WORKERS[server])]
                models = {"same": "chat", "other": "claude"}
            case "litellm":
                (work / "litellm.yaml").write_text(_litellm(upstream), encoding="utf-8")
                environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR",
                                "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}  # fmt: skip
                command = [str(folder / "litellm" / "bin" / "litellm"), "--config", str(work / "litellm.yaml"),
                           "--port", str(port), "--host", "127.0.0.1"]  # fmt: skip
                models = {"same": "chat", "other": "claude"}
            case "portkey":
                file = folder / "npm" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
                command = ["node", str(file), f"--port={port}", "--headless"]
                models = {"same": "gpt-5.2", "other": "claude-sonnet-4-6"}
                headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"{upstream}/v1"}
                other = {"x-portkey-provider": "anthropic", "x-portkey-custom-host": f"{upstream}/v1"}
                environment |= {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
            case _:
                (work / "tensorzero.toml").write_text(_tensorzero(upstream, port), encoding="utf-8")
                command = [str(folder / "tensorzero" / "bin" / "python"), str(HERE / "tensorzero_gateway.py"),
                           str(work / "tensorzero.toml")]  # fmt: skip
                environment |= {"NONE": "none"}
                prefix = "/openai/v1"
                models = {name: f"tensorzero::model_name::{model}" for name, model in
                          (("same", "chat"), ("other", "claude"))}  # fmt: skip
        with (work / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
            try:
                if server == "tensorzero":
                    port = _printed_port(process)
                _wait_for(port, process, work / "log")
                yield Target(process.pid, port, prefix, models, headers, other)
            finally:
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _dragoman(upstream: str) -> str:
    return f"""[gateway]
models = {{ chat = "openai-chat:gpt-5.2", claude = "anthropic:claude-sonnet-4-6" }}
[providers.openai-chat]
base_url = "{upstream}/v1"
[providers.anthropic]
base_url = "{upstream}"
"""


def _litellm(upstream: str) -> str:
    models = [
        {"model_name": "chat", "litellm_params": {"model": "openai/gpt-5.2", "api_base": f"{upstream}/v1",
                                                  "api_key": "none"}},
        {"model_name": "claude", "litellm_params": {"model": "anthropic/claude-sonnet-4-6", "api_base": upstream,
                                                    "api_key": "none"}},
    ]  # fmt: skip
    return json.dumps({"model_list": models, "litellm_settings": {"drop_params": True}})  # JSON is YAML


def _tensorzero(upstream: str, port: int) -> str:
    return f"""[gateway]
bind_address = "127.0.0.1:{port}"
observability.enabled = false
[models.chat]
routing = ["p"]
[models.chat.providers.p]
type = "openai"
model_name = "gpt-5.2"
api_base = "{upstream}/v1/"
api_key_location = "none"
[models.claude]
routing = ["p"]
[models.claude.providers.p]
type = "anthropic"
model_name = "claude-sonnet-4-6"
api_base = "{upstream}/v1/"
api_key_location = "env::NONE"
"""


def _printed_port(process: "subprocess.Popen[bytes]") -> int:
    """Return the port of the address that a server prints among its log."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b"http://"):
            return urlsplit(line.decode()).port or 0
    raise NotStartedError("the server printed no address")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path, limit: float = 240.0) -> None:
    stop = time.monotonic() + limit
    while time.monotonic() < stop and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise NotStartedError(f"the server did not start: {log.read_text(errors='replace')[-600:]}")


def tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    found = [pid]
    for member in found:
        found += [child for child, parent in parents.items() if parent == member]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants so far."""
    ticks = 0
    for member in tree(pid):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants."""
    pages = 0
    for member in tree(pid):
        try:
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")
