"""Makes Hypothesis draw the same examples, whatever else the process has imported."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch


@contextmanager
def fixed_draws() -> Generator[None, None, None]:
    """Draw no constants of the loaded modules.

    Hypothesis takes one value in twenty from the source of the modules that are loaded at that moment. With the same
    seed, a process that has run other tests before would draw other examples.
    """
    try:
        providers: Any = import_module("hypothesis.internal.conjecture.providers")
        none = import_module("hypothesis.internal.constants_ast").Constants
        cache, replaced = providers.CONSTANTS_CACHE.cache, patch.object(providers, "_get_local_constants", none)
        replaced.start()
    except (ImportError, AttributeError):  # these are internals: a version may lack them
        yield
        return
    cache.clear()
    try:
        yield
    finally:
        replaced.stop()
        cache.clear()
