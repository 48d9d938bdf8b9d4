"""Runs the transcripts of the docs: the commands of a ``console`` block, and what each of them shows.

A line ``...`` stands for any lines, and ``...`` within a line for any text. ``dragoman`` runs in this process, so that
the embedded model is loaded once; everything else runs in a shell.
"""

import io
import logging
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.cli import main

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_LINES = "..."


class Command(NamedTuple):
    """A line after ``$``, and what the page shows below it."""

    line: str
    shown: str


def transcripts(page: Path) -> Iterator[Command]:
    """Return all commands of a page, in order."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = each.partition("\n")
            yield Command(line, shown)


def matches(command: Command, output: str) -> bool:
    """Whether the output is what the page shows."""
    parts = []
    for line in command.shown.splitlines(keepends=True):
        if line.strip() == _ANY_LINES:
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(re.escape(line).replace(re.escape(_ANY_LINES), ".*"))
    return re.fullmatch("".join(parts), output) is not None


class Shell:
    """Runs lines, one after the other, in the working folder of this process."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._code = 0

    def run(self, line: str) -> str:
        """Return what a terminal would show. ``echo $?`` shows the exit code of the line before."""
        if line == "echo $?":
            return f"{self._code}\n"
        *others, last = line.split(" | ")
        data, notes = b"", ""
        for stage in others:
            data, shown = self._run_stage(stage, data, is_shown=False)
            notes += shown
        return notes + self._run_stage(last, data, is_shown=True)[1]

    def _run_stage(self, stage: str, data: bytes, *, is_shown: bool) -> tuple[bytes, str]:
        """Return the standard output, and what is shown: the errors, and the output if it goes to the terminal."""
        if not stage.startswith("dragoman "):
            done = subprocess.run(stage, shell=True, input=data, capture_output=True, timeout=60, check=False)
            self._code = done.returncode
            return done.stdout, (done.stdout if is_shown else b"").decode() + done.stderr.decode()
        out, notes = io.BytesIO(), io.BytesIO()
        with self._patch.context() as patch:
            patch.setattr(sys, "argv", shlex.split(stage))
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
            patch.setattr(sys, "stdout", io.TextIOWrapper(notes if is_shown else out, "utf-8", write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(notes, "utf-8", write_through=True))
            patch.setattr(logger := logging.getLogger("dragoman"), "propagate", logger.propagate)
            try:
                main()
                self._code = 0
            except SystemExit as ended:
                self._code = int(ended.code or 0)
            return out.getvalue(), notes.getvalue().decode()
