"""Tables of many short rows as one test each: an item of pytest costs more than such a row."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

_SHOWN = 10


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Callable[[Any], str] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test to run with every row, as ``pytest.mark.parametrize`` does, but in one item.

    All rows run, and the error names each one that fails: by ``ids``, which gets the row. Fixtures are set up once,
    so a test that changes one cannot be decorated.
    """
    table = list(rows)
    assert table, "a table without rows tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run_all(*arguments: Any, **fixtures: Any) -> None:
            failures: list[tuple[Any, BaseException]] = []
            for row in table:
                values = {names: row} if isinstance(names, str) else dict(zip(names, row, strict=True))
                try:
                    test(*arguments, **fixtures, **values)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((row, error))
            if failures:
                shown = [
                    f"{ids(row):.200}: {type(error).__name__}: {error!s:.1000}" for row, error in failures[:_SHOWN]
                ]
                message = "\n".join([f"{len(failures)} of {len(table)} rows fail:", *shown])
                raise AssertionError(message) from failures[0][1]

        signature = inspect.signature(test)
        taken = {names} if isinstance(names, str) else {*names}
        kept = [each for name, each in signature.parameters.items() if name not in taken]
        run_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run_all

    return decorate
