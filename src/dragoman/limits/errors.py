"""What can go wrong with limits.

DragomanError
├── ProviderError
│   └── RateLimitError
│       └── LimitReachedError   a limit of the program's own; nothing was sent
└── LimitsUnavailableError      the server that keeps the counts does not answer; nothing was sent
"""

from typing import ClassVar

from dragoman.adapter.errors import DragomanError, RateLimitError


class LimitReachedError(RateLimitError):
    """Nothing was sent, and nothing counted. ``retry_after`` says in how many seconds there is room; None: never, the
    request is larger than the limit itself.

    It speaks against no provider, so a router takes none for down because of it; it may hand over to another model.
    """

    error_class: ClassVar[str] = "limited"


class LimitsUnavailableError(DragomanError):
    pass
