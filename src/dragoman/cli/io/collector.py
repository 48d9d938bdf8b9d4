"""Pauses Python's garbage collector for work that only adds objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Collect no cycles. Reading a long conversation makes none, and the collector would visit its messages often."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
