"""Hints for names that a caller has misspelt."""

import difflib
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the most similar known name, or all known names if none is similar."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; known are {', '.join(known)}"
