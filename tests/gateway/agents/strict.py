"""``python -m tests.gateway.agents.strict [agent ...] [--behind WIRE ...] [--install FOLDER]``: at strict providers.

Each agent reads two files in parallel, edits one, runs a test and reports, with reasoning, before providers that refuse
what the real ones refuse. The providers are ``shared/clients/tools`` next to the checkout, or DRAGOMAN_CLIENTS; the one
called ``mock`` is aimock of npm.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx

from dragoman import AsyncClient
from dragoman_gateway import GatewaySettings, create_app
from tests.conformance.clients.recorded import folder as clients_folder
from tests.gateway.agents.clients import NPM_AGENTS, VARIABLE, folder, install_npm
from tests.gateway.agents.recorded import configure, dragoman_serve
from tests.gateway.serving import serving
from tests.gateway.upstream import PATIENCE

AGENTS = ("claude", "codex", "gemini", "opencode", "opencode-anthropic", "opencode-openai", "opencode-google")
WIRES = {
    "msgs": "anthropic:claude-opus-4-8",
    "resp": "openai:gpt-5.4",
    "chat": "openai-chat:gpt-5.4",
    "google": "google:gemini-3-pro-preview",
    "ollama": "ollama:qwen3",
}
"""The models behind, by the strict provider's name of the wire."""
MOCK = "mock"
MOCK_MODELS = {
    **dict.fromkeys(AGENTS, WIRES["msgs"]),
    **dict.fromkeys(("claude", "opencode-anthropic"), WIRES["resp"]),
}
"""The model behind each agent, of another wire than its own."""
_PACKAGES = (*NPM_AGENTS, "@copilotkit/aimock")
_SCENE = "fix"
_DUMMY = "skip_thought_signature", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZ"
"""What stands for a signature that is lost, as it is and in base64."""
_SECONDS = 150
_OWN_WIRES = {"claude": "msgs", "codex": "resp", "gemini": "google"}
"""The provider of each agent's own vendor."""


@dataclass(slots=True)
class Task:
    """The task of one agent. ``bodies`` are the requests that the provider accepted, ``refusals`` its errors."""

    agent: str
    behind: str
    report: str
    seconds: float
    refusals: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def problem(self) -> str:
        """What does not hold; nothing if all does."""
        if self.refusals:
            return f"refused: {self.refusals[0][:300]}"
        if " OK " not in self.report:
            return self.report.replace("\n", " ")[-700:]
        if '"result":""' in self.report:
            return "the result is empty"
        return _lost_state(self.behind, self.bodies)


def tools() -> Path:
    """Return the folder of the strict providers and of the driver of agents, which may be absent."""
    return (clients_folder() or Path()) / "tools"


def _lost_state(behind: str, bodies: Sequence[dict[str, Any]]) -> str:
    """Return what of the provider's state did not come back with the last request of the task; nothing if all did."""
    body = max(bodies, key=lambda each: len(json.dumps(each)), default={})
    text = json.dumps(body)
    if behind == "google":
        calls = [part for content in body["contents"] for part in content["parts"] if "functionCall" in part]
        signed = [part for part in calls if part.get("thoughtSignature")]
        if not signed or any(mark in text for mark in _DUMMY):
            return f"{len(signed)} of {len(calls)} calls are signed, or a signature is not the real one"
    if behind == "resp":
        items = [item for item in body["input"] if item.get("type") == "reasoning" and item.get("encrypted_content")]
        if len(items) < 2 or body.get("store") is not False:
            return f"{len(items)} items of reasoning came back, store is {body.get('store')}"
    if behind == "msgs" and body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        blocks = [block for each in body["messages"] for block in each["content"] if isinstance(block, dict)]
        if sum(block["type"] == "thinking" for block in blocks) < 2:
            return "signed thinking did not come back"
    return ""


@contextmanager
def _provider(log: Path) -> Iterator[str]:
    """Yield the address of the strict provider."""
    settings = {**os.environ, "LOG": str(log), "BODIES": "1"}
    arguments = [sys.executable, "-m", "uvicorn", "upstream_strict:app", "--port", "0", "--log-level", "info"]
    yield from _running(arguments, settings, tools(), r"running on (http://[\d.:]+)")


@contextmanager
def _aimock(installed: Path) -> Iterator[str]:
    """Yield the address of a provider that nobody here wrote."""
    script = installed / "npm" / "aimock.mjs"  # packages are found next to the file
    script.write_text((Path(__file__).parent / "aimock.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    yield from _running(["node", str(script)], dict(os.environ), installed, r"running on (http://[\w.:]+)")


def _running(arguments: list[str], environment: dict[str, str], work: Path, ready: str) -> Iterator[str]:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = subprocess.Popen(arguments, env=environment, cwd=work, stdout=output, stderr=subprocess.STDOUT)
        try:
            end = monotonic() + PATIENCE
            while True:
                output.seek(0)
                printed = output.read()
                if found := re.search(ready, printed):
                    break
                if process.poll() is not None or monotonic() > end:
                    raise RuntimeError(f"the provider does not run: {printed[-600:]}")
                sleep(0.1)
            yield found[1]
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _gateway(base: str, models: dict[str, str], scratch: Path) -> Iterator[str]:
    settings: dict[str, Any] = {"api_key": "sk-of-the-provider", "max_retries": 0}
    ends = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1", "google": "", "ollama": ""}
    client = AsyncClient(providers={name: {**settings, "base_url": base + end} for name, end in ends.items()})
    gateway = GatewaySettings(models=models, database=f"sqlite:///{scratch / 'gateway.db'}")
    with serving(create_app(gateway, client=client)) as address:
        yield address


def run(agent: str, behind: str, installed: Path) -> Task:
    """Run one agent through the task. Raises RuntimeError if the provider does not start."""
    wire, model = ("", MOCK_MODELS[agent]) if behind == MOCK else (behind, WIRES[behind])
    named = model.partition(":")[2]  # agents leave out the thinking of a model with another name than they asked for
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        scratch = Path(name)
        log = scratch / "provider.jsonl"
        base = stack.enter_context(_provider(log) if wire else _aimock(installed))
        address = stack.enter_context(_gateway(base, {named: model, "*": model}, scratch))
        begin = monotonic()
        printed = _drive(agent, named, address, installed, scratch)
        task = Task(agent, behind, printed, monotonic() - begin)
        if wire:
            events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            task.refusals = [f"{each['status']} {each['msg']}" for each in events if each["ev"] == "BAD"]
            task.bodies = [each["body"] for each in events if each["ev"] == "body"]
        else:
            journal = httpx.get(f"{base}/__aimock/journal", timeout=PATIENCE).json()
            entries = journal if isinstance(journal, list) else journal["entries"]
            task.refusals = [str(each)[:300] for each in entries if each.get("response", {}).get("status", 200) >= 400]
    return task


def _drive(agent: str, model: str, address: str, installed: Path, scratch: Path) -> str:
    """Run an agent through the task, in the same folder each time, and return what the driver says."""
    environment = {**os.environ, "AGENTS_BIN": str(installed / "npm" / "node_modules" / ".bin"),
                   "AGENTS_ROOT": str(scratch / "agents"), "LIMIT": str(_SECONDS), "SHOW": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(tools() / "agent.py"), agent, model, _SCENE, address], env=environment, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout + done.stderr


def record_and_replay(agent: str, installed: Path) -> list[str]:
    """Run an agent at a provider of its wire through a gateway that records, and twice at one that replays. Return what
    the driver says each time."""
    model = WIRES[_OWN_WIRES[agent]]
    named = model.partition(":")[2]
    with tempfile.TemporaryDirectory() as name:
        scratch, tapes = Path(name), Path(name) / "tapes"
        with _provider(scratch / "provider.jsonl") as base:
            settings = configure(scratch, base, {named: model, "*": model})
            with dragoman_serve(settings, "--record", tapes) as address:
                printed = [_drive(agent, named, address, installed, scratch)]
        with dragoman_serve(settings, "--replay", tapes) as address:
            printed += [_drive(agent, named, address, installed, scratch) for _ in range(2)]
    return printed


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each agent and provider. Returns 1 if a task fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.agents.strict", description=__doc__)
    parser.add_argument("agent", nargs="*", help=f"of {', '.join(AGENTS)} (default: all)")
    parser.add_argument("--behind", nargs="*", default=[], help=f"of {', '.join((*WIRES, MOCK))} (default: all)")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help=f"install the agents, and set {VARIABLE} to it")
    options = parser.parse_args(arguments)
    if options.install is not None:
        install_npm(options.install, _PACKAGES)
        os.environ[VARIABLE] = str(options.install)
    installed = folder()
    if installed is None:
        print(f"no agents are installed: --install FOLDER installs them, or {VARIABLE} names their folder")
        return 0
    if not (tools() / "agent.py").exists():
        print("the strict providers are not here: DRAGOMAN_CLIENTS names their folder")
        return 0
    failed = 0
    print("| agent | provider | result | requests | seconds |\n| --- | --- | --- | ---: | ---: |")
    for agent in options.agent or AGENTS:
        for behind in options.behind or (*WIRES, MOCK):
            done = run(agent, behind, installed)
            failed += bool(done.problem)
            cells = (agent, behind, done.problem or "ok", len(done.bodies) or "", f"{done.seconds:.1f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
