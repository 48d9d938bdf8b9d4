"""Makes Hypothesis draw the same examples, whatever else the process has imported."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def fixed_draws() -> Generator[None, None, None]:
    """Draw no constants of the loaded modules.

    Hypothesis takes one value in twenty from the source of the modules that are loaded at that moment. With the same
    seed, a process that has run other tests before would draw other examples.
    """
    try:
        providers: Any = import_module("hypothesis.internal.conjecture.providers")
        local_constants, none = (
            providers._get_local_constants,
            import_module("hypothesis.internal.constants_ast").Constants,
        )
        cache = providers.CONSTANTS_CACHE.cache
    except (ImportError, AttributeError):  # these are internals: a version may lack them
        yield
        return
    providers._get_local_constants = none
    cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = local_constants
        cache.clear()
