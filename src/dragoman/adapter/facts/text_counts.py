"""Counts the parts of a text that tokenizers count: words, digits, marks, other scripts. A few passes in C.

Every tokenizer of today is a byte-pair encoding after a similar splitting rule: a short word, with the blank in front
of it, is one token, a long one several; marks and digits go by themselves; other scripts than the Latin one take a
token for one to three characters. Counting these classes comes close without the vocabulary.
"""

from collections.abc import Iterable
from typing import NamedTuple

_LETTERS_PER_PIECE = 6
"""Letters of a word after which another token is likely."""


class TextCounts(NamedTuple):
    """How often each class occurs. A text that grows at its end never counts less in any of them.

    ``pieces`` are full sixes of letters within words, ``capitals`` those inside a word, ``numbers`` stretches of
    digits, ``indents`` pairs of blanks; ``accented`` are letters of two UTF-8 bytes, which is also Greek, Cyrillic,
    Hebrew and Arabic; ``wide`` characters of three bytes, except punctuation; ``astral`` of four, such as emoji.
    """

    words: int = 0
    pieces: int = 0
    capitals: int = 0
    numbers: int = 0
    digits: int = 0
    marks: int = 0
    mark_runs: int = 0
    lines: int = 0
    indents: int = 0
    accented: int = 0
    wide: int = 0
    astral: int = 0


def count_text(texts: Iterable[str]) -> TextCounts:
    """Count all texts together; none is joined with the next."""
    # A message cannot hold a lone surrogate, and a count should not fail because of one.
    data = ("\x00" + "\x00".join(texts)).encode("utf-8", "replace")
    classes = data.translate(_CLASSES, _CONTINUATION_BYTES)
    words = classes.translate(_IS_LETTER)
    return TextCounts(
        words=words.count(b" a"),
        pieces=words.count(b"a" * _LETTERS_PER_PIECE),
        capitals=classes.count(b"aA"),
        numbers=classes.translate(_IS_DIGIT).count(b" 0"),
        digits=classes.count(b"0"),
        marks=classes.count(b"."),
        mark_runs=classes.translate(_IS_MARK).count(b" ."),
        lines=classes.translate(_IS_LINE).count(b" \n"),
        indents=classes.count(b"__"),
        accented=classes.count(b"e"),
        wide=classes.count(b"w"),
        astral=classes.count(b"^"),
    )


def _character_class(byte: int) -> str:
    """Return the class of a character by its first byte in UTF-8."""
    char = chr(byte)
    if byte < 0x80:
        if char.isalpha():
            return "A" if char.isupper() else "a"
        if char.isdigit():
            return "0"
        return {"\n": "\n", "\r": "\n", " ": "_", "\t": "_", "\x00": " "}.get(char, ".")
    if byte < 0xE0:
        return "e"
    if byte == 0xE2:  # U+2000 to U+2FFF: dashes, quotation marks, arrows, currencies
        return "."
    return "w" if byte < 0xF0 else "^"


def _class_table(classes: str, shown: str) -> bytes:
    """Return a table that shows these classes, and a blank for all others."""
    return bytes(ord(shown) if chr(byte) in classes else ord(" ") for byte in range(256))


_CLASSES = "".join(map(_character_class, range(256))).encode()
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""The bytes after the first byte of a character."""
_IS_LETTER, _IS_DIGIT, _IS_MARK, _IS_LINE = (
    _class_table("aAe", "a"),
    _class_table("0", "0"),
    _class_table(".", "."),
    _class_table("\n", "\n"),
)
