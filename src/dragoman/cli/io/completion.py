"""Completes model names in a shell."""

import os
from typing import Any

from dragoman.cli.app import COMPLETION

_BASH = "complete_bash"


def complete_model(ctx: Any, param: Any, incomplete: str) -> list[str]:
    """Return the names that begin like the word: providers first, then the known models of one.

    Bash takes a colon for the end of a word, so it gets only what follows the colon.
    """
    del ctx, param
    from dragoman.adapter.registry import adapter_class, is_provider, providers  # completing is the only use

    provider, separator, _ = incomplete.partition(":")
    if not separator:
        return [f"{name}:" for name in providers() if name.startswith(incomplete)]
    if not is_provider(provider):
        return []
    names = [f"{provider}:{name}" for name in adapter_class(provider).listed_models]
    found = [name for name in names if name.startswith(incomplete)]
    return [name.partition(":")[2] for name in found] if os.environ.get(COMPLETION) == _BASH else found


def join_bash_words() -> None:
    """Put the words that bash splits at colons together, in the variables that it passes."""
    if os.environ.get(COMPLETION) != _BASH:
        return
    words, position = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    for index, word in enumerate(words):
        continues = word == ":" or (index > 0 and words[index - 1] == ":")
        if continues and joined:
            joined[-1] += word
            position -= index <= int(os.environ["COMP_CWORD"])
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(position)
