"""Regular expressions that are right on every supported version of Python."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "adapters", "gateway/src", "pricing")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")


def strings(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.STRING:
                yield token.start[0], token.string


def has_possessive_group(pattern: str) -> bool:
    return _POSSESSIVE_GROUP.search(_CLASS.sub("c", pattern)) is not None


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_pattern_has_a_possessive_group(folder: str) -> None:
    """Before Python 3.11.5, such a group takes the start of a repetition that fails for a whole one
    (https://github.com/python/cpython/issues/106052). A single character may be repeated possessively.
    """
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in strings(path)
        if has_possessive_group(text)
    ]
    assert not found


@pytest.mark.parametrize("pattern", ["(?:ab?c)*+", "(a|b)?+", "(?:x)++", "(x){2,3}+", "(?>a)"])
def test_possessive_groups_are_found(pattern: str) -> None:
    assert has_possessive_group(pattern)


@pytest.mark.parametrize("pattern", [r"[^\"\\]*+", r"\d++", "(?:ab?c)*", r"[()*+,]", r"\)*+"])
def test_other_patterns_are_not(pattern: str) -> None:
    assert not has_possessive_group(pattern)
