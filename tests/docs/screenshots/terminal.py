"""`python -m tests.docs.screenshots.terminal FOLDER [NAME...]`: commands and the embedded model, as SVG.

Each command runs in a pseudo-terminal, and the picture shows what is left on its screen.
"""

import os
import re
import select
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS, ROWS = 96, 60
PROMPT = b"> "
_PATIENCE = 120.0
"""Seconds of silence; a loaded machine may take long to load the model."""
_MODEL = "local:smollm2-135m"
_PROGRAM = [sys.executable, "-c", "from dragoman.cli import main; main()"]
_TOKEN = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")
_FONTS = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
"""The template loads its fonts from a server."""
PICTURES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "cli-ask": (
        ["ask", _MODEL, "Name three rivers as a Markdown list, with one line on each.", "-o", "max_output_tokens=120"],
        [],
    ),
    "cli-chat": (
        ["chat", _MODEL, "-s", "Answer in one sentence.", "-o", "max_output_tokens=48"],
        [
            "What does a lock on a canal do?",
            "/preview anthropic:claude-haiku-4-5",
            "/swap ollama:qwen3:4b",
            "/cost",
            "/quit",
        ],
    ),
    "cli-bulk": (
        [
            "bulk",
            "cities.csv",
            "-m",
            _MODEL,
            "-p",
            "Which country is {city} in?",
            "--system",
            "Answer with one word.",
            "-o",
            "countries.csv",
            "--budget",
            "1",
            "--option",
            "max_output_tokens=8",
        ],
        [],
    ),
}
"""The words of each command, and the lines that are typed into it."""
FILES = {"cities.csv": "city\nParis\nRome\nLima\nOslo\nCairo\nQuito\n"}
"""The files of the folder in which the commands run."""


def main(folder: Path, *chosen: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (words, lines) in ((each, PICTURES[each]) for each in chosen or PICTURES):
        shown = read_screen(run_in_terminal([*_PROGRAM, *words], lines))
        console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
        quoted = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(Text.from_ansi("\n".join([f"\x1b[32m$\x1b[0m dragoman {quoted}", *shown])))
        svg = console.export_svg(
            title="dragoman", theme=MONOKAI, code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id=name
        )
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"{folder / name}.svg: {len(svg):,} bytes")


def run_in_terminal(command: Sequence[str], lines: Sequence[str]) -> str:
    """Return all that a command writes to its terminal. Each line is typed at its prompt."""
    import fcntl
    import pty
    import termios

    with tempfile.TemporaryDirectory() as home:
        for name, content in FILES.items():
            Path(home, name).write_text(content, encoding="utf-8")
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(home)
            folders = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), home)
            environ = {**os.environ, **folders, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
            os.execve(command[0], command, environ)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        shown, waiting = b"", list(lines)
        while select.select([terminal], [], [], _PATIENCE)[0]:
            try:
                shown += os.read(terminal, 1 << 16)
            except OSError:  # the command has ended
                break
            if waiting and re.sub(rb"\x1b\[[\d;?]*[A-Za-z]", b"", shown).endswith(b"\n" + PROMPT):
                os.write(terminal, waiting.pop(0).encode() + b"\n")
        os.close(terminal)
        os.waitpid(process, 0)
    return shown.decode()


def read_screen(written: str) -> list[str]:
    """Return the lines of a screen after the text, with their colours. The commands erase and rewrite whole lines."""
    lines, at = [""], 0
    for token in _TOKEN.finditer(written):
        if token[0] == "\n":
            at += 1
            if at == len(lines):
                lines.append("")
        elif token[2] == "A":
            at = max(0, at - int(token[1] or 1))
        elif token[2] == "K":
            lines[at] = ""
        elif token[0] != "\r" and token[2] in (None, "m"):
            lines[at] += token[0]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
