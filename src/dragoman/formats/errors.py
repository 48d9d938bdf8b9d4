"""Errors of documents in other formats.

DragomanError
└── FormatError             the document is not in the expected format, or no message can hold it
    ├── MessageBodyError    a message body does not match its schema
    └── NotFetchedError     content is at a URL, and there is no function to fetch it
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.message import Message

_MAX_SHOWN = 4
"""Violations in the message of an error, apart from the first."""


class FormatError(DragomanError):
    """``path`` leads to the fault, as in ``$[3].message.content[0].text``; ``$`` is the document itself."""

    def __init__(self, reason: str, *, path: str = "$") -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class BodyViolation:
    """``path`` leads to the part, as in ``$[2]``. It is ``$``, the body itself, if a part is missing."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class MessageBodyError(FormatError):
    """``violations`` has every violation. If the answer has not fully arrived, it has those that are already certain.

    ``reply`` is the complete answer that a session received, or None.
    """

    def __init__(self, violations: Iterable[BodyViolation], *, ended: str | None = None) -> None:
        self.violations = tuple(violations)
        self.reply: Message | None = None
        first, *more = self.violations
        reason = "; ".join([first.reason, *map(str, more[:_MAX_SHOWN])])
        if len(more) > _MAX_SHOWN:
            reason += f"; and {len(more) - _MAX_SHOWN} more"
        super().__init__(f"{reason} ({ended})" if ended else reason, path=first.path)


class NotFetchedError(FormatError):
    """``url`` is the address of the content."""

    def __init__(self, url: str, *, path: str = "$") -> None:
        self.url = url
        super().__init__("the content is at a URL: pass fetch to read it", path=path)
