"""The ids of requests."""

import os


def new_request_id() -> str:
    """Return the id of a request, which stands in every reply and in the log."""
    return f"req_{os.urandom(12).hex()}"
