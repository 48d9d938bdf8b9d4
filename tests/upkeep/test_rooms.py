"""What the table of the rooms counts."""

import ast

from tests.upkeep.rooms import count_lines, names, used_once

SOURCE = '''"""A module."""

LIMIT = 3
"""A docstring of a constant."""


def area(width: int) -> int:
    """Return the area."""
    # A comment.
    text = """two
lines"""
    return _square(width) + _twice(width) + _twice(width) + len(text)


def _square(width: int) -> int:
    return width * width


def _twice(width: int) -> int:
    return 2 * width


def _elsewhere() -> None: ...
'''


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings() -> None:
    assert count_lines(SOURCE) == 10


def test_a_private_function_is_used_once_in_its_file_or_in_another_one() -> None:
    tree, other = ast.parse(SOURCE), ast.parse("from module import _elsewhere, _square\n_elsewhere()\n_square(1)\n")
    assert [each.name for each in used_once(tree, names(tree, other))] == ["_square", "_elsewhere"]
    assert [each.name for each in used_once(tree, names(tree))] == ["_square"]
