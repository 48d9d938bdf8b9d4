"""The errors of typed answers."""

from collections.abc import Iterable
from typing import Any

from dragoman.adapter.errors import DragomanError, RequestError
from dragoman.canonical.events import OutputProblem

_MAX_LISTED = 10
"""Problems in the text of an error; ``problems`` has all of them."""


class OutputTypeError(RequestError):
    """The requested type has no JSON Schema, or the requested schema is invalid. Nothing was sent."""


class OutputError(DragomanError):
    """The answer does not have the requested type, after all retries.

    ``text`` is the last answer, and ``problems`` are the reasons, each with its path in the JSON of the answer.
    ``reply`` is the `Reply` of the turn: its messages have the earlier answers as well, and its cost is that of all.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems, self.text, self.reply)

    def __init__(self, problems: Iterable[OutputProblem], text: str, reply: Any = None) -> None:
        self.problems = tuple(problems)
        self.text = text
        self.reply = reply
        listed = "; ".join(map(str, self.problems[:_MAX_LISTED]))
        more = len(self.problems) - _MAX_LISTED
        super().__init__(f"the answer does not have the requested type: {listed}" + (f"; and {more} more" * (more > 0)))
