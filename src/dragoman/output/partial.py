"""Reads a typed answer while it streams."""

import re
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from pydantic_core import from_json, to_json

from dragoman.output.answer_type import AnswerForm

T = TypeVar("T")

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = "0123456789+-.eE"
_SHARE = 64
"""A long text is parsed again when it has grown by this part of its length, so that the work stays linear."""


class PartialReader(Generic[T]):
    """Reads one answer. A string that has not ended counts only with ``strings``, and a number never does."""

    def __init__(self, form: AnswerForm[T], *, strings: bool) -> None:
        self._form = form
        self._strings = strings
        self._pieces: list[str] = []
        self._length = self._next = 0
        self._parsed = self._shown = b""

    def feed(self, piece: str) -> Iterator[T]:
        """Yield the value so far, if there is a new one."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length < self._next:
            return
        self._next = self._length + self._length // _SHARE
        text = "".join(self._pieces)
        self._pieces = [text]
        data = self._parse(text)
        if data is None or (written := to_json(data)) == self._parsed:
            return
        self._parsed = written
        part = self._form.read_partial(data)
        if part is not None and part[0] != self._shown:
            self._shown = part[0]
            yield part[1]

    def _parse(self, text: str) -> Any:
        if not text.lstrip().startswith("{"):  # text before a tool call, for example
            return None
        if text[-1] in _NUMBER and not (self._strings and _STRING.sub("", text).count('"')):
            text = text.rstrip(_NUMBER)
        try:
            return from_json(text, allow_inf_nan=False, allow_partial="trailing-strings" if self._strings else True)
        except ValueError:
            return None
