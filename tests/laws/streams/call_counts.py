"""Counts the work of a function instead of timing it, so that a loaded machine makes no difference."""

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

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def bytes_touched(work: Callable[[], object]) -> int:
    """The bytes on which methods of bytes objects were called. Repeated searches of a growing buffer increase it."""
    touched = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal touched
        if event == "c_call":
            owner = getattr(argument, "__self__", None)
            touched += len(owner) if isinstance(owner, (bytes, bytearray)) else 1

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return touched
