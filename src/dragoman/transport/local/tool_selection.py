"""Selects the tool that a message needs, for a model too small to decide.

A model of 135 million parameters that may answer or call always answers; asked whether a tool is needed, it is no
better than chance (both measured). So words decide for `auto`: a message needs a tool if it mentions the tool's object,
the last word of its name: the file of read_file, the weather of get_weather. Text that looks like a file, a link or an
address counts as the word for it. Of several such tools, those with the most words of their name in the message stay;
the model chooses between them.
"""

import re
from collections.abc import Sequence
from typing import Any

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM = 4

_SHAPES = (
    (re.compile(r"https?://\S+"), ("url", "link", "page", "web")),
    (re.compile(r"[^\s@]+@[^\s@]+\.\w+"), ("email", "mail", "address")),
    (re.compile(r"(?<![\w@])(?!e\.g|i\.e)[\w./-]*\w\.[a-zA-Z]\w{0,4}(?!\w)"), ("file", "document", "path")),
)
"""Patterns of pieces of text, and the words that name them."""


def find_pieces(word: str, text: str) -> list[str]:
    """Return the pieces of the text that look like what the word names, such as a path; none for other words."""
    return [piece for shape, names in _SHAPES if word in names for piece in shape.findall(text)]


def select_tools(tools: Sequence[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the tools that the text needs, in their order; empty if it needs none."""
    mentioned = _words(text)
    scored_tools = [(_count_mentioned(tool["name"], mentioned), tool) for tool in tools]
    best = max((score for score, _ in scored_tools), default=0)
    return [tool for score, tool in scored_tools if best and score == best]


def _count_mentioned(name: str, mentioned: set[str]) -> int:
    """Return how many words of a tool's name were mentioned; 0 if the last one, which names its object, was not."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or not _is_mentioned(words[-1], mentioned):
        return 0
    return sum(_is_mentioned(word, mentioned) for word in words)


def _is_mentioned(word: str, mentioned: set[str]) -> bool:
    """Whether the word, or one with the same beginning, was mentioned: file and files, read and reading."""
    if word in mentioned:
        return True
    return any(
        min(len(word), len(other)) >= _MIN_STEM and (word.startswith(other) or other.startswith(word))
        for other in mentioned
    )


def _words(text: str) -> set[str]:
    words = {word.lower() for word in _WORD.findall(text)}
    for shape, names in _SHAPES:
        if shape.search(text):
            words.update(names)
    return words
