"""What a person types in a chat: edited lines, a history across runs, and pasted lines as one text."""

import json
import os
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from dragoman.private_files import create_private_folder, open_private

_KEPT = 1_000
"""Texts of the history that are read again."""
_PASTE_SECONDS = 0.03
"""A line that is there so soon after another one was not typed."""
_PROMPT_COLOUR = "\001\033[1;34m\002{}\001\033[0m\002"
"""The marks tell readline what takes no room, so that it knows where the line begins."""


class TypedLines:
    """Reads texts from a terminal. ``history`` is the file that keeps them for later runs, except those that are
    ``unkept``; None keeps nothing."""

    def __init__(self, history: Path | None, *, coloured: bool, unkept: Collection[str] = ()) -> None:
        self._history = history
        self._unkept = unkept
        self._coloured = coloured
        self._readline = _load_readline()
        if self._readline is not None:
            # A terminal marks what is pasted; Python has turned that off.
            self._readline.parse_and_bind("set enable-bracketed-paste on")
            self._readline.set_auto_history(False)
            self._readline.clear_history()
            for text in _read_history(history):
                self._readline.add_history(text)

    def read(self, prompt: str) -> str:
        """Return the next text. Raises EOFError at the end, and KeyboardInterrupt."""
        shown = _PROMPT_COLOUR.format(prompt) if self._coloured and self._readline is not None else prompt
        lines = [input(shown)]
        while _has_more():
            lines.append(input())
        text = "\n".join(lines).strip()
        if text and text not in self._unkept:
            self._keep(text)
        return text

    def read_until(self, end: str) -> str:
        """Return the lines up to one that is ``end``, or to the end of the input."""
        lines: list[str] = []
        with suppress(EOFError):
            while (line := input()).strip() != end:
                lines.append(line)
        text = "\n".join(lines).strip()
        if text:
            self._keep(text)
        return text

    def _keep(self, text: str) -> None:
        if self._readline is not None:
            self._readline.add_history(text)
        if self._history is not None:
            with suppress(OSError):  # the answer matters more
                create_private_folder(self._history.parent)
                with open(self._history, "a", encoding="utf-8", opener=open_private) as file:
                    file.write(json.dumps(text) + "\n")


def _load_readline() -> ModuleType | None:
    try:
        import readline
    except ModuleNotFoundError:  # Windows edits lines itself
        return None
    return readline


def _read_history(file: Path | None) -> list[str]:
    found: list[str] = []
    if file is not None:
        with suppress(OSError, UnicodeDecodeError):
            for line in file.read_text(encoding="utf-8").splitlines()[-_KEPT:]:
                with suppress(ValueError):
                    if isinstance(text := json.loads(line), str):
                        found.append(text)
    return found


def _more_on_windows() -> bool:
    import msvcrt

    waits_until = time.monotonic() + _PASTE_SECONDS
    keys: Callable[[], bool] = msvcrt.kbhit  # type: ignore[attr-defined,unused-ignore]
    while time.monotonic() < waits_until:
        if keys():
            return True
        time.sleep(0.005)
    return False


def _has_more() -> bool:
    """Whether another line was pasted with the last one, into a terminal that does not mark what is pasted."""
    if os.name == "nt":
        return _more_on_windows()
    import select

    return bool(select.select([sys.stdin], [], [], _PASTE_SECONDS)[0])
