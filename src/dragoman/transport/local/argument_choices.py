"""Restricts string arguments to words of the user's message, for models too small to choose them.

A model of 135 million parameters invents paths and addresses, or copies the tool's name (measured). It copies well if
it can do nothing else. So each free string among the arguments is limited to word sequences of the message; if its name
says what it is, such as a path, and the message holds pieces of that shape, to those.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.transport.local.tool_selection import find_pieces

MAX_WORDS = 60
"""Only the last words of a longer message are used; the number of sequences grows with the number of words."""
MAX_RUN = 8

_LEADING = "\"'`([{<,;:!?"
_SENTENCE_ENDS = ".!?;:"
"""A sequence does not continue after these characters."""
_TRAILING = "\"'`)]}>,;:!?."
_CONSTRAINT_KEYS = frozenset({"enum", "const", "pattern", "format"})


def limit_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with each free string limited to pieces of the text; unchanged if the text has none."""
    runs = list(dict.fromkeys(_runs(text)))
    return _limit(schema, "", text, runs) if runs else dict(schema)


def _limit(schema: Mapping[str, Any], name: str, text: str, runs: list[str]) -> dict[str, Any]:
    limited = dict(schema)
    if schema.get("type") == "string" and not _CONSTRAINT_KEYS & schema.keys():
        limited["enum"] = list(dict.fromkeys(find_pieces(name.lower().rpartition("_")[2], text))) or runs
    if isinstance(schema.get("properties"), dict):
        limited["properties"] = {key: _limit(inner, key, text, runs) for key, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        limited["items"] = _limit(schema["items"], name, text, runs)
    return limited


def _runs(text: str) -> Iterator[str]:
    words = text.split()[-MAX_WORDS:]
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_RUN, len(words)) + 1):
            if run := " ".join(words[start:end]).lstrip(_LEADING).rstrip(_TRAILING):
                yield run
            if words[end - 1][-1] in _SENTENCE_ENDS:
                break
