"""Words whose absence tests assert: none may appear by chance in a time, a port, an identifier or a hash."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
_BY_CHANCE = re.compile(r"[0-9a-f]{1,9}|[0-9A-F]{1,9}")


def words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and word of each `"word" not in …`, and of each constant of a module that could be one."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Constant(value=str(word)), ops=[ast.NotIn()]):
                yield node.lineno, word
            case ast.Assign(targets=[ast.Name(id="SECRET" | "KEY" | "WORD")], value=ast.Constant(value=str(word))):
                yield node.lineno, word


def test_no_searched_word_appears_by_chance() -> None:
    """A word of few digits is in one of some hundred identifiers; a test that searches for it fails by chance."""
    found = [
        (str(path.relative_to(TESTS)), line, word)
        for path in sorted(TESTS.rglob("*.py"))
        for line, word in words(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(found) > 100
    assert [where for where in found if _BY_CHANCE.fullmatch(where[2])] == []
