"""A model in this process: the transport behind the provider `local`.

`transport` is the transport; `model` loads and runs; `prompt` builds the model's input, and helps a model that is too
small to choose a tool by itself; `reply` turns its text into lines; `files` handles the model's file.
"""

from typing import Any

from dragoman.local.files import notify_terminal
from dragoman.local.transport import AsyncLocalTransport, LocalTransport

__all__ = ["AsyncLocalTransport", "LocalTransport", "new_transport", "notify_terminal"]


def new_transport(*, asynchronous: bool, **settings: Any) -> LocalTransport | AsyncLocalTransport:
    """Return the transport of the provider `local`: the entry point ``local`` of ``dragoman.transports``."""
    return AsyncLocalTransport(**settings) if asynchronous else LocalTransport(**settings)
