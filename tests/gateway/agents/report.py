"""``python -m tests.gateway.agents [client ...] [--behind MODEL ...] [--install FOLDER]``."""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman import Message, RequestContext, get_adapter
from dragoman.answers import ClientToolIds
from dragoman.canonical.tools import ToolDefinition
from tests.gateway.agents.clients import CLIENTS, VARIABLE, folder, install, missing, program
from tests.gateway.agents.quickstart import MODEL, NAME, run_quickstart
from tests.gateway.scripted import JSON, MODELS, WIRES, Answer, Received, Upstream, gateway_before, reply

WORD = "QUINCE-42"
"""The word in the scripted answer after the result of the tool."""
CALLS = {
    "Read": {"file_path": "notes.txt"},
    "exec_command": {"cmd": "cat notes.txt"},
    "shell": {"command": ["cat", "notes.txt"]},
    "read": {"filePath": "notes.txt"},
    "read_file": {"file_path": "notes.txt"},
    "get_weather": {"city": "Oslo"},
}
"""A harmless call of each client's own tool."""
OTHER_WIRES = {
    "messages": ("chat-model", "google-model", "responses-model"),
    "chat": ("messages-model", "google-model"),
    "responses": ("messages-model", "chat-model"),
    "google": ("messages-model", "chat-model", "responses-model"),
    "ollama": ("messages-model", "chat-model", "google-model"),
}
"""The models behind, by the client's wire."""
MOST_REQUESTS = 8
"""More requests than any client needs for the task: it repeats itself."""


@dataclass(slots=True)
class Run:
    """One task of one client. ``called`` tells whether the result of a tool came back to the provider."""

    client: str
    model: str
    problem: str
    requests: int
    called: bool
    seconds: float


def task(request: Received) -> Answer:
    """Call the client's own tool first, and name the word when its result is there."""
    wire = WIRES[request.wire]
    messages, tools = read_request(request)
    name = next((tool.name for tool in tools if tool.name in CALLS), None)
    if name is None or any(message.role == "tool" for message in messages):
        sample = reply("The secret word is ", f"{WORD}.", input_tokens=1200)
    else:
        arguments = dict(CALLS[name])
        if name in ("Read", "read"):
            (key, file), *_ = arguments.items()
            arguments[key] = str(Path(_work_folder.name) / str(file))
        sample = reply("Reading.", calls=((name, arguments),), input_tokens=1000)
    if request.is_streamed:
        return Answer([wire.stream(sample)])
    return Answer([wire.whole(sample)], media_type=JSON)


class _WorkFolder:
    name = ""


_work_folder = _WorkFolder()
"""The folder of the running client: some tools take absolute paths only."""


def read_request(request: Received) -> tuple[list[Message], list[ToolDefinition]]:
    """Return the conversation and the tools of a request to a provider."""
    context = RequestContext.for_model(f"{request.wire}:served", tool_ids=ClientToolIds(), prices=None)
    messages, tools, _ = get_adapter(f"{request.wire}:served").from_wire_request(request.raw, context)
    return messages, tools


def run(client: str, model: str, installed: Path, limit: float = 90.0) -> Run:
    """Run one client through the task."""
    upstream = Upstream()
    upstream.script = task
    with tempfile.TemporaryDirectory() as scratch, gateway_before(upstream) as address:
        started = program(client, model, address, installed, Path(scratch))
        _work_folder.name = str(started.folder)
        begin = time.monotonic()
        try:
            done = subprocess.run(
                started.arguments, env=started.environment, cwd=started.folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=limit, start_new_session=True, check=False,
            )  # fmt: skip
            code, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            code, output, errors = -1, "", f"no end after {limit:g} s"
        seconds = time.monotonic() - begin
    called = any(any(message.role == "tool" for message in read_request(each)[0]) for each in upstream.requests)
    problem = ""
    if code != 0 or WORD not in output:
        problem = f"exit code {code}: {output[-400:]} {errors[-400:]}".replace("\n", " ")
    elif not called and not client.startswith("aider"):  # it has no tools
        problem = "the result of the tool did not come back"
    elif len(upstream.requests) > MOST_REQUESTS:
        problem = "too many requests"
    return Run(client, model, problem, len(upstream.requests), called, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each client and model behind. Returns 1 if a task fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.agents", description=__doc__)
    parser.add_argument("client", nargs="*", help=f"of {', '.join((*CLIENTS, NAME))} (default: all)")
    parser.add_argument("--behind", nargs="*", default=[], help=f"of {', '.join(MODELS)} (default: other wires)")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help=f"install the clients, and set {VARIABLE} to it")
    options = parser.parse_args(arguments)
    if options.install is not None:
        install(options.install)
        os.environ[VARIABLE] = str(options.install)
    installed = folder()
    if installed is None:
        print(f"no clients are installed: --install FOLDER installs them, or {VARIABLE} names their folder")
        return 0
    failed = 0
    print("| client | its wire | model behind | result | requests | tool called | seconds |")
    print("| --- | --- | --- | --- | ---: | --- | ---: |")
    for client in options.client or (*CLIENTS, NAME):
        wire = CLIENTS.get(client, "messages")
        if reason := missing("claude-code" if client == NAME else client, installed):
            print(f"| {client} | {wire} | | skipped: {reason} | | | |", flush=True)
            continue
        if client == NAME:
            problem, seconds = run_quickstart(installed)
            failed += bool(problem)
            print(f"| {client} | {wire} | {MODEL} | {problem or 'ok'} | | | {seconds:.1f} |", flush=True)
            continue
        for model in options.behind or OTHER_WIRES[wire]:
            done = run(client, model, installed)
            failed += bool(done.problem)
            cells = (done.client, wire, f"{model} ({MODELS[model]})", done.problem or "ok", done.requests,
                     "yes" if done.called else "no", f"{done.seconds:.1f}")  # fmt: skip
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
    return 1 if failed else 0
