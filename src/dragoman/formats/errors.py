"""What can go wrong with a document in another shape.

DragomanError
└── FormatError     the document is not in the shape that it was said to be in, or no message can hold it
"""

from dragoman.adapter.errors import DragomanError


class FormatError(DragomanError):
    """``path`` leads to the fault, as in ``$[3].message.content[0].text``; ``$`` is the document itself."""

    def __init__(self, reason: str, *, path: str = "$") -> None:
        self.reason = reason
        self.path = path
        super().__init__(f"{path}: {reason}")
