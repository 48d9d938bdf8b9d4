"""``python -m tests.gateway.agents.recorded [client ...] [--install FOLDER]``: libraries of npm, recorded and replayed.

Each has a conversation with a tool call through `dragoman serve --record`, with another wire behind. Then the provider
is gone, and the same program has it again through `dragoman serve --replay`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.agents.clients import (
    LIBRARIES,
    NODE_LIBRARIES,
    NPM_LIBRARIES,
    VARIABLE,
    folder,
    install_npm,
    missing,
    program,
)
from tests.gateway.agents.report import OTHER_WIRES, WORD, task
from tests.gateway.scripted import MODELS, Upstream, provider_bases
from tests.gateway.serving import serving

PROVIDER_KEY = "sk-ant-" + "a1B2" * 8
CLIENT_KEY = "sk-client-" + "c3D4" * 8
MISS = "no recorded reply fits"
_COMMAND = (sys.executable, "-c", "from dragoman.cli import main; main()", "serve")
_MARK = "Dragoman gateway: "
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client printed: with the provider, without it, and for a request that was not recorded."""

    recorded: str
    replayed: str
    refused: str
    files: tuple[str, ...]
    """The cassettes."""

    @property
    def problem(self) -> str:
        """What does not hold; nothing if all does."""
        if WORD not in self.recorded:
            return f"recording: {self.recorded[-600:]}"
        if self.replayed != self.recorded:
            return f"replay: {self.replayed[-600:]}"
        if MISS not in self.refused:
            return f"a request that was not recorded: {self.refused[-600:]}"
        if any(key[10:] in text for text in self.files for key in (PROVIDER_KEY, CLIENT_KEY)):
            return "a cassette has a key"
        return "" if len(self.files) > 1 else "there are no cassettes"


def record_and_replay(client: str, installed: Path) -> Outcome:
    """Run a client with a gateway that records, and twice with one that replays."""
    model, other, *_ = OTHER_WIRES[LIBRARIES[client]]
    upstream = Upstream()
    upstream.script = task
    with tempfile.TemporaryDirectory() as name:
        scratch, tapes = Path(name), Path(name) / "tapes"
        with serving(upstream) as address, dragoman_serve(configure(scratch, address), "--record", tapes) as url:
            recorded = _run(client, model, url, installed, scratch / "recorded")
        with dragoman_serve(scratch / "dragoman.toml", "--replay", tapes) as url:
            replayed = _run(client, model, url, installed, scratch / "replayed")
            refused = _run(client, other, url, installed, scratch / "refused")
        files = tuple(path.read_text(encoding="utf-8") for path in sorted(tapes.iterdir()))
    return Outcome(recorded, replayed, refused, files)


def _run(client: str, model: str, url: str, installed: Path, scratch: Path) -> str:
    """Return what the client prints."""
    scratch.mkdir()
    started = program(client, model, url, installed, scratch)
    done = subprocess.run(
        started.arguments, env={**started.environment, "KEY": CLIENT_KEY}, cwd=started.folder,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def configure(scratch: Path, provider: str, models: Mapping[str, str] = MODELS) -> Path:
    """Write the settings of a gateway before a scripted provider."""
    lines = [
        f'[providers.{name}]\nbase_url = "{base}"\nmax_retries = 0' for name, base in provider_bases(provider).items()
    ]
    lines += ["[gateway]\nport = 0\n[gateway.models]", *(f'"{name}" = "{model}"' for name, model in models.items())]
    file = scratch / "dragoman.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@contextmanager
def dragoman_serve(settings: Path, *options: str | Path) -> Iterator[str]:
    """Yield the address of a `dragoman serve` with these options, which ends in order."""
    keys = {f"{name}_API_KEY": PROVIDER_KEY for name in ("OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL", "DEEPSEEK")}
    with subprocess.Popen(
        [*_COMMAND, "--config", str(settings), *map(str, options)],
        env={**os.environ, **keys}, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if line.startswith(_MARK)), "")
            assert line, "dragoman serve has ended"
            yield line.removeprefix(_MARK).strip()
        finally:
            process.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each client. Returns 1 if a replay differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.agents.recorded", description=__doc__)
    parser.add_argument("client", nargs="*", help=f"of {', '.join(NODE_LIBRARIES)} (default: all)")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help=f"install them, and set {VARIABLE} to it")
    options = parser.parse_args(arguments)
    if options.install is not None:
        install_npm(options.install, NPM_LIBRARIES)
        os.environ[VARIABLE] = str(options.install)
    installed = folder()
    if installed is None:
        print(f"no clients are installed: --install FOLDER installs them, or {VARIABLE} names their folder")
        return 0
    failed = 0
    print("| client | cassettes | result | seconds |\n| --- | ---: | --- | ---: |")
    for client in options.client or NODE_LIBRARIES:
        if reason := missing(client, installed):
            print(f"| {client} | | skipped: {reason} | |", flush=True)
            continue
        begin = time.monotonic()
        outcome = record_and_replay(client, installed)
        failed += bool(outcome.problem)
        result = outcome.problem.replace("\n", " ") or "ok"
        print(f"| {client} | {len(outcome.files)} | {result} | {time.monotonic() - begin:.1f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
