"""The sentences of a Markdown page, as a person reads them aloud, and the words that they avoid."""

import re
from collections.abc import Iterator

MOST_WORDS = 30
"""A longer sentence is counted: most readers have to go back to its beginning."""

_FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_CELL = re.compile(r"(?<!\\)\|")
_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) +")
_HEADING = re.compile(r"^#+ ")
_END = re.compile(r"(?<=[.!?])[\"')\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9])|(?<=:)\s*$")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|No)\.)$")
_NAMES = re.compile(r"(?:Code[,;:/. ]*)+")
_WORD = re.compile(r"[\w']+(?:[-./:][\w']+)*")


def paragraphs(page: str) -> Iterator[str]:
    """Yield each paragraph, list item, table cell and heading as one line.

    Blocks of code and cells that only list names are left out. Code within a line is one word.
    """
    text = _COMMENT.sub("", _FENCE.sub("\n", page))
    text = _LINK.sub(r"\1", _IMAGE.sub("", _CODE.sub("Code", text)))
    open_lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_table = line.lstrip().startswith("|")
        starts = not line.strip() or is_table or _ITEM.match(line) or _HEADING.match(line)
        if starts and open_lines:
            yield " ".join(open_lines)
            open_lines = []
        if is_table:
            cells = (cell.strip() for cell in _CELL.split(line))
            yield from (cell for cell in cells if cell and not _NAMES.fullmatch(cell))
        elif line.strip():
            open_lines.append(_HEADING.sub("", _ITEM.sub("", line)).strip(" >"))
            if _HEADING.match(line):
                yield open_lines.pop()


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page, in order."""
    for paragraph in paragraphs(page):
        begun = ""
        for part in _END.split(paragraph):
            begun = f"{begun} {part}".strip()
            if begun and not _ABBREVIATION.search(begun):
                yield begun
                begun = ""
        if begun:
            yield begun


def count_words(sentence: str) -> int:
    """Return the number of words. `max_tokens` and `openai/gpt` are one each."""
    return len(_WORD.findall(sentence))


def long_sentences(page: str) -> list[str]:
    return [each for each in sentences(page) if count_words(each) > MOST_WORDS]


_FOREIGN = re.compile(
    r"(?<!there )\b(?:is|are|was|were|be|been) no(?! (?:longer|more|less|fewer|later)\b)\b(?= \w)", re.IGNORECASE
)
_HOUSE = re.compile(r"\b(?:whom|anew|beside|thereof|therein|whosoever)\b", re.IGNORECASE)


def foreign_words(page: str) -> list[str]:
    """Return what an English engineer would not write: "is no file" for "is not a file", and words out of use."""
    return [found for each in sentences(page) for found in (*_FOREIGN.findall(each), *_HOUSE.findall(each))]
