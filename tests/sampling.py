"""How much a test tries: a sample by default, everything under the marker `exhaustive`.

Laws with `hypothesis` take their number of examples from the profile (`tests/conftest.py`) and run under both. Tests
that walk over recordings, bytes or tables use the fixture `exhaustive`, or mark the rows of their table with `sample`.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

_FULL = 100
_LEAST = 5


def examples(number: int, *, sampled: int | None = None, **more: Any) -> settings:
    """The settings of a law that wants ``number`` examples of an exhaustive run.

    The default run takes ``sampled`` of them, or else a share.
    """
    profile = settings().max_examples
    share = max(min(_LEAST, number), number * profile // _FULL)
    return settings(max_examples=share if sampled is None or profile >= _FULL else sampled, **more)


def sample(rows: Iterable[Any], every: int, start: int = 0) -> list[Any]:
    """The rows of a parametrization, of which the default run takes one in ``every``, from the row ``start`` on."""
    return [row if index % every == start else _exhaustive(row) for index, row in enumerate(rows)]


def _exhaustive(row: Any) -> Any:
    if isinstance(row, type(pytest.param())):
        return pytest.param(*row.values, id=row.id, marks=[*row.marks, pytest.mark.exhaustive])
    return pytest.param(row, marks=pytest.mark.exhaustive)
