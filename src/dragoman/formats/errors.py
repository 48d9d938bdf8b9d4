"""Errors of documents in other formats.

DragomanError
└── FormatError             the document is not in the expected format, or no message can hold it
    ├── MessageBodyError    a message body does not match its schema
    └── NotFetchedError     content is at a URL, and there is no function to fetch it
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.adapter.errors import DragomanError

_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_MAX_SHOWN = 4
"""Violations in the message of an error, apart from the first."""


class FormatError(DragomanError):
    """A document does not follow its format. ``path`` leads to the fault, as in ``$[3].message.content[0].text``; ``$``
    is the document itself."""

    def __init__(self, reason: str, *, path: str = "$") -> None:
        self.reason = reason
        """What is wrong at ``path``, without the content."""
        self.path = path
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class BodyViolation:
    """One way in which a body does not follow its schema. ``path`` leads to the part, as in ``$[2]``. It is ``$``, the
    body itself, if a part is missing."""

    path: str
    reason: str
    """What is wrong at ``path``, without the content."""

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    @property
    def steps(self) -> tuple[str | int, ...]:
        """The keys and indices of the path."""
        return tuple(int(index) if index else key for key, index in _STEP.findall(self.path))


class MessageBodyError(FormatError):
    """A body does not follow its schema. ``violations`` has every violation."""

    def __init__(self, violations: Iterable[BodyViolation], *, ended: str | None = None) -> None:
        self.violations = tuple(violations)
        first, *more = self.violations
        reason = "; ".join([first.reason, *map(str, more[:_MAX_SHOWN])])
        if len(more) > _MAX_SHOWN:
            reason += f"; and {len(more) - _MAX_SHOWN} more"
        super().__init__(f"{reason} ({ended})" if ended else reason, path=first.path)


class NotFetchedError(FormatError):
    """Content at a URL was read without a function that fetches it. ``url`` is the address of the content."""

    def __init__(self, url: str, *, path: str = "$") -> None:
        self.url = url
        super().__init__("the content is at a URL: pass fetch to read it", path=path)
