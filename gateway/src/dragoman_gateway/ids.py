"""The ids of requests."""

import os
from contextvars import ContextVar

PRESENT_REQUEST: ContextVar[str] = ContextVar("present_request", default="")
"""The id of the request that this task answers, for the lines of the log."""


def new_request_id() -> str:
    """Return the id of a request, which is in every reply and in the log."""
    return f"req_{os.urandom(12).hex()}"
