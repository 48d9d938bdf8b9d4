"""What a check has found: a line with its state, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from rich.console import Console

from dragoman.cli.io.console import show_line, show_lines


class State(StrEnum):
    """``note``: something is missing that not everybody needs. ``problem``: something fails."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """``advice`` says what to do."""

    state: State
    subject: str
    text: str
    advice: str = ""


Findings = Iterator[Finding]

_COLOURS = {State.OK: "green", State.NOTE: "yellow", State.PROBLEM: "bold red"}
_SUBJECT_WIDTH = 14
_STATE_WIDTH = max(map(len, State))


def print_finding(out: Console, finding: Finding) -> None:
    """Print one line, and the advice on a second one."""
    state = f"[{_COLOURS[finding.state]}]{finding.state:{_STATE_WIDTH}}[/]"
    out.print(f"{state}  {finding.subject:{_SUBJECT_WIDTH}} {show_lines(finding.text)}", soft_wrap=True)
    if finding.advice:
        out.print(f"{'':{_STATE_WIDTH + _SUBJECT_WIDTH + 3}}[dim]to do:[/] {show_line(finding.advice)}", soft_wrap=True)


def show_address(address: str) -> str:
    """Return scheme, host and port of an address. The rest may hold a password."""
    try:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{parts.hostname or ''}{port}"
