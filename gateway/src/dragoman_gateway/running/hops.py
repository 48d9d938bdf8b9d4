"""Marks the gateways that a request has passed, because one that comes back to a gateway would loop forever."""

import itertools
import os
import re
from collections.abc import Mapping

from dragoman.transport import TASK_HEADERS
from dragoman_gateway.errors import LoopError

HEADER = "x-dragoman-hops"
_MOST_HOPS = 16
_MARK = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""What a mark may be: those of a client's header are sent on to providers."""
VARIABLE = "DRAGOMAN_GATEWAY_MARK"
"""The mark of all workers of one `dragoman serve`."""
_numbers = itertools.count()
"""The gateways of this process: the first one of each worker has the number 0, and so the same mark."""
_random = os.urandom(8).hex()


def share_mark() -> None:
    """Let the first gateway of each process that this one starts have the same mark: they are one gateway."""
    os.environ[VARIABLE] = os.urandom(8).hex()


def new_mark() -> str:
    """Return the mark of one more gateway of this process."""
    return f"{os.environ.get(VARIABLE, _random)}.{next(_numbers)}"


def mark_hop(headers: Mapping[str, str], mark: str) -> None:
    """Let all requests of this task carry the marks of the gateways so far. Raises LoopError if this one is among them,
    if they are too many, or if one is not a mark."""
    passed = [each.strip() for each in headers[HEADER].split(",")] if HEADER in headers else []
    if mark in passed or len(passed) >= _MOST_HOPS or not all(map(_MARK.fullmatch, passed)):
        raise LoopError
    TASK_HEADERS.set({HEADER: ", ".join((*passed, mark))})
