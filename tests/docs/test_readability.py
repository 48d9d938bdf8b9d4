"""The English of the pages: few long sentences, and no words that a native engineer would not use."""

import pytest

from tests.docs.readability.__main__ import pages
from tests.docs.readability.sentences import count_words, foreign_words, long_sentences, sentences

MOST_LONG = 40
"""Sentences over 30 words in all pages together. Split one before you add one."""


def test_few_sentences_are_long() -> None:
    """`python -m tests.docs.readability --list` prints them."""
    found = {path.name: long_sentences(path.read_text(encoding="utf-8")) for path in pages()}
    assert sum(map(len, found.values())) <= MOST_LONG, {name: each for name, each in found.items() if each}


def test_no_page_has_foreign_words() -> None:
    found = {path.name: foreign_words(path.read_text(encoding="utf-8")) for path in pages()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("One two.\nThree four! Five", ["One two.", "Three four!", "Five"]),
        ("# Title\n\nOne. Two:\n\n- three\n- four\n  five\n", ["Title", "One.", "Two:", "three", "four five"]),
        ("| a | b c |\n| --- | --- |\n| `x`, `y` | one. Two |", ["a", "b c", "---", "---", "one.", "Two"]),
        ("Read `a. B` and [this. That](x.md).\n\n```python\nOne. Two.\n```\n", ["Read Code and this.", "That."]),
        ("Some, e.g. This one. And that.", ["Some, e.g. This one.", "And that."]),
    ],
)
def test_a_page_is_split_into_sentences(page: str, expected: list[str]) -> None:
    """Lists and tables have no full stops, and code is one word."""
    assert list(sentences(page)) == expected


def test_words_are_counted_as_they_are_spoken() -> None:
    assert count_words("`max_tokens` isn't 1.5 of vendor-neutral input/output, is it?") == 8


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("This is no file.", 1),
        ("What is no longer needed is gone, and there is no other.", 0),
        ("It stands beside the other, anew.", 2),
        ("The answer is no.", 0),
    ],
)
def test_foreign_words_are_found(sentence: str, found: int) -> None:
    assert len(foreign_words(sentence)) == found
