"""What can go wrong with a document in another shape.

DragomanError
└── FormatError             the document is not in the shape that it was said to be in, or no message can hold it
    ├── MessageBodyError    a message body does not obey its schema
    └── NotFetchedError     content lies at a URL, and nothing was given to fetch it with
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.message import Message


class FormatError(DragomanError):
    """``path`` leads to the fault, as in ``$[3].message.content[0].text``; ``$`` is the document itself."""

    def __init__(self, reason: str, *, path: str = "$") -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class BodyViolation:
    """``path`` leads to the part, as in ``$[2]``; ``$`` is the body, which lacks something."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class MessageBodyError(FormatError):
    """``violations`` are all of them; of an answer that is still coming, those that are certain already.

    ``reply`` is the whole answer that a session received, None where there is none or it is not all there.
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
    """``url`` is where the content lies."""

    def __init__(self, url: str, *, path: str = "$") -> None:
        self.url = url
        super().__init__("the content lies at a URL: give fetch, which nothing is read without", path=path)


_MAX_SHOWN = 4
