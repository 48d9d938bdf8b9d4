"""Completes the names of models in a shell. The shell calls the command with `_DRAGOMAN_COMPLETE` set."""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO


def complete_model(incomplete: str) -> list[str]:
    """Return the model names that begin like the word: first the providers, then the known models of one."""
    from dragoman.adapter.registry import adapter_class, providers  # only a shell needs them here

    found = [f"{name}:" for name in providers() if f"{name}:".startswith(incomplete.partition(":")[0])]
    if ":" in incomplete or len(found) == 1:
        found = [name + model for name in found for model in adapter_class(name[:-1]).listed_models]
    return [name for name in found if name.startswith(incomplete)]


def complete_in_bash(run: Callable[[], None]) -> None:
    """Run the command for bash, which takes a colon for a word of its own.

    It gets the words as they were typed, and bash gets only what follows the last colon.
    """
    words, position = _join_at_colons(os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"]))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(position)
    typed = words[position] if position < len(words) else ""
    known = len(typed.rpartition(":")[0]) + (":" in typed)
    found = StringIO()
    try:
        with redirect_stdout(found):
            run()
    finally:
        sys.stdout.writelines(f"{line[known:]}\n" for line in found.getvalue().splitlines())


def _join_at_colons(words: list[str], position: int) -> tuple[list[str], int]:
    """Return the words as typed, and the position of the word that the cursor is in."""
    joined: list[str] = []
    at = 0
    for index, word in enumerate(words):
        if joined and (word == ":" or words[index - 1] == ":"):
            joined[-1] += word
        else:
            joined.append(word)
        if index == position:
            at = len(joined) - 1
    return joined, at if position < len(words) else len(joined)
