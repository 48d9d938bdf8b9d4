"""Counts the work of a function instead of timing it, so that a loaded machine makes no difference."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """The number of called functions, including built-in ones."""
    count = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    _run_watched(work, watch)
    return count


def bytes_touched(work: Callable[[], object]) -> int:
    """The bytes on which methods of bytes objects were called. Repeated searches of a growing buffer increase it."""
    touched = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal touched
        if event == "c_call":
            owner = getattr(argument, "__self__", None)
            touched += len(owner) if isinstance(owner, (bytes, bytearray)) else 1

    _run_watched(work, watch)
    return touched


def _run_watched(work: Callable[[], object], watch: Callable[[FrameType, str, Any], None]) -> None:
    """Without garbage collection: it would call what other tests have left behind."""
    collects, before = gc.isenabled(), sys.getprofile()
    gc.disable()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
