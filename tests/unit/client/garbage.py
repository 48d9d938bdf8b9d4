"""Objects that refer to themselves: they stay until the garbage collector looks for them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def our_garbage() -> Iterator[list[str]]:
    """Fill the list, at the end, with the names of our types of which the collector finds objects."""
    found: list[str] = []
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        names = [f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage]
        found += [each for each in names if each.startswith("dragoman") and not each.startswith("dragoman.testing")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
