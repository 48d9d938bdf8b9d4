"""A conversation of many messages through `dragoman convert`: its CPU time and its peak memory, for each target."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json, to_json

COUNT = 200_000
MOST_BYTES = 1_160_000_000 // 3
"""A third of what that many messages took when they were converted all at once."""
TARGETS = ("openai-chat", "anthropic", "umf", "chatml", "messages")
_PROGRAM = """
import sys, time
from dragoman.cli import main
try:
    main()
finally:
    try:
        import resource
    except ImportError:  # Windows
        peak = 0
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    sys.stderr.write(f"[{time.process_time()}, {peak}]")
"""


@dataclass(frozen=True)
class Conversion:
    """What one conversion took. ``peak_bytes`` is 0 if the system does not report it."""

    target: str
    messages: int
    cpu_seconds: float
    peak_bytes: int
    written: bool

    @property
    def enough(self) -> bool:
        return self.written and (self.messages < COUNT or self.peak_bytes < MOST_BYTES)


def write_history(path: Path, count: int) -> None:
    """Write a list of Chat Completions with that many short messages."""
    entries = [
        {"role": ("user", "assistant")[number % 2], "content": f"This is message {number}, and it says a little."}
        for number in range(count)
    ]
    path.write_bytes(to_json(entries))


def rows(count: int) -> Iterator[Conversion]:
    """Convert the list to each target, each in a process of its own."""
    source = Path("history.json")
    write_history(source, count)
    for name in TARGETS:
        target = Path(f"history.{name}")
        command = [sys.executable, "-c", _PROGRAM, "convert", str(source), str(target), "--to", name]
        ran = subprocess.run(command, capture_output=True, check=False)
        cpu_seconds, peak = from_json(ran.stderr) if ran.returncode == 0 else (0.0, 0)
        yield Conversion(name, count, cpu_seconds, peak, ran.returncode == 0 and target.stat().st_size > 0)


def lines(measured: Iterator[Conversion]) -> Iterator[str]:
    yield f"{'converted to':<28}{'messages':>9}{'CPU s':>8}{'peak MiB':>10}"
    for row in measured:
        peak = f"{row.peak_bytes / 2**20:.0f}" if row.peak_bytes else "?"
        yield f"{row.target:<28}{row.messages:>9}{row.cpu_seconds:>8.1f}{peak:>10}{'' if row.enough else '  FAILED'}"
