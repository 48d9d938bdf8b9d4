"""The errors of limits.

DragomanError
├── ProviderError
│   └── RateLimitError
│       └── LimitReachedError   a limit of the program's own; nothing was sent
└── LimitsUnavailableError      the server of the counters does not answer; nothing was sent
"""

from typing import ClassVar

from dragoman.adapter.errors import DragomanError, RateLimitError


class LimitReachedError(RateLimitError):
    """A limit of the program's own has no room for a request. Nothing was sent, and nothing counted. ``retry_after`` is
    the number of seconds until there is room; None means never, because the request is larger than the limit.

    It does not count as a failure of the provider; a router may fall back to another model.
    """

    error_class: ClassVar[str] = "limited"
    sent = False


class LimitsUnavailableError(DragomanError):
    """The server that holds the counters does not answer. Nothing was sent."""

    sent = False
