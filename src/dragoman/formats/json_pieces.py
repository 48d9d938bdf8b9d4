"""JSON that comes in pieces: what is certain of it at each moment, in linear time.

Only the tokens are told; who listens knows what they mean. Keys and strings come whole, with one exception: the
beginning of a string that is still coming can be looked at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic_core import from_json

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH


class Kind(Enum):
    OPENED = auto()
    """An object or a list begins: ``value`` is ``{`` or ``[``."""
    CLOSED = auto()
    """It ends."""
    KEY = auto()
    VALUE = auto()
    """A string, number, boolean or null."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    value: Any


class BrokenJsonError(Exception):
    """No JSON begins like that."""


class _Place(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    DONE = auto()
    STRING = auto()
    SCALAR = auto()


_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_SCALAR = re.compile(r"[-+.0-9A-Za-z]*")
_ESCAPES = frozenset('"\\/bfnrtu')
_HEX = frozenset("0123456789abcdefABCDEF")
_SCALARS_BEGIN = "-0123456789tfn"
"""A scalar is read from its first character on; whatever else has been seen is done with."""
_LONGEST_SCALAR = 5_000
_LOOKED_AT = 500
"""How many pieces of a string are put together to look at its beginning: each time, so that it cannot be many."""
_WORDS = ("true", "false", "null")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?(?:[eE][-+]?[0-9]*)?)?)?")
"""What a number may begin with."""


class JsonPieces:
    """Feed it the text, piece by piece, and it gives the tokens. Raises BrokenJsonError as soon as it is certain."""

    def __init__(self) -> None:
        self._place = _Place.VALUE
        self._closers: list[str] = []
        self._held: list[str] = []
        """The string or scalar under way, as it is written, without the quote that opens it."""
        self._is_key = False
        self._escape = ""
        """An escape that is not all there."""

    @property
    def beginning(self) -> str | None:
        """What is there of a string value that is still coming; None where none is, or its end is not clear yet."""
        if self._place is not _Place.STRING or self._is_key or self._escape or len(self._held) > _LOOKED_AT:
            return None
        try:
            return str(from_json(f'"{"".join(self._held)}"'.encode()))
        except ValueError:
            return None  # it may end in half a pair of surrogates

    @property
    def is_text(self) -> bool:
        """Whether a string value is under way."""
        return self._place is _Place.STRING and not self._is_key

    def feed(self, text: str) -> Iterator[Token]:
        position = 0
        while position < len(text):
            if self._place is _Place.STRING:
                position, token = self._string(text, position)
            elif self._place is _Place.SCALAR:
                position, token = self._scalar(text, position)
            else:
                space = _SPACE.match(text, position)
                position = space.end() if space else position
                if position == len(text):
                    return
                token = self._structure(text[position])
                position += text[position] not in _SCALARS_BEGIN
            if token is not None:
                yield token

    def end(self) -> Iterator[Token]:
        """No more text comes."""
        if self._place is _Place.SCALAR:
            yield self._whole_scalar()
        if self._place is not _Place.DONE:
            raise BrokenJsonError("the JSON ends before it is complete")

    def _structure(self, character: str) -> Token | None:
        place = self._place
        if place in (_Place.VALUE, _Place.VALUE_OR_END):
            if character == "]" and place is _Place.VALUE_OR_END:
                return self._close("]")
            return self._value(character)
        if place in (_Place.KEY, _Place.KEY_OR_END):
            if character == "}" and place is _Place.KEY_OR_END:
                return self._close("}")
            if character != '"':
                raise BrokenJsonError("a key of an object is a string")
            self._begin(_Place.STRING, is_key=True)
        elif place is _Place.COLON:
            if character != ":":
                raise BrokenJsonError("a colon stands behind a key")
            self._place = _Place.VALUE
        elif place is _Place.COMMA_OR_END:
            if character != ",":
                return self._close(character)
            self._place = _Place.KEY if self._closers[-1] == "}" else _Place.VALUE
        else:
            raise BrokenJsonError("something stands behind the JSON")
        return None

    def _value(self, character: str) -> Token | None:
        if character in "{[":
            if len(self._closers) == MAX_DOCUMENT_DEPTH:
                raise BrokenJsonError(f"it is nested over {MAX_DOCUMENT_DEPTH} levels deep")
            self._closers.append("}" if character == "{" else "]")
            self._place = _Place.KEY_OR_END if character == "{" else _Place.VALUE_OR_END
            return Token(Kind.OPENED, character)
        if character == '"':
            self._begin(_Place.STRING)
        elif character in _SCALARS_BEGIN:
            self._begin(_Place.SCALAR)
        else:
            raise BrokenJsonError(f"no value begins with {character!r}")
        return None

    def _begin(self, place: _Place, *, is_key: bool = False) -> None:
        self._place, self._is_key, self._held, self._escape = place, is_key, [], ""

    def _close(self, character: str) -> Token:
        if not self._closers or character != self._closers.pop():
            raise BrokenJsonError("a comma, or the end of the object or list, stands behind a value")
        self._valued()
        return Token(Kind.CLOSED, character)

    def _valued(self) -> None:
        self._place = _Place.COMMA_OR_END if self._closers else _Place.DONE

    def _string(self, text: str, position: int) -> tuple[int, Token | None]:
        if self._escape:
            self._go_on(text[position])
            return position + 1, None
        plain = _PLAIN.match(text, position)
        if plain is not None and plain.end() > position:
            self._held.append(plain[0])
            position = plain.end()
        if position == len(text):
            return position, None
        if text[position] == '"':
            return position + 1, self._whole_string()
        if text[position] != "\\":
            raise BrokenJsonError("a control character stands in a string")
        self._escape = "\\"
        return position + 1, None

    def _go_on(self, character: str) -> None:
        """One more character of an escape."""
        if character not in (_ESCAPES if len(self._escape) == 1 else _HEX):
            raise BrokenJsonError("a string has an escape that JSON does not know")
        self._escape += character
        if len(self._escape) == (6 if self._escape[1] == "u" else 2):
            self._held.append(self._escape)
            self._escape = ""

    def _whole_string(self) -> Token:
        try:
            value = from_json(f'"{"".join(self._held)}"'.encode())
        except ValueError:
            raise BrokenJsonError("a string holds a lone surrogate") from None
        self._held = []
        if self._is_key:
            self._place = _Place.COLON
            return Token(Kind.KEY, value)
        self._valued()
        return Token(Kind.VALUE, value)

    def _scalar(self, text: str, position: int) -> tuple[int, Token | None]:
        found = _SCALAR.match(text, position)
        end = found.end() if found is not None else position
        self._held.append(text[position:end])
        if end < len(text):
            return end, self._whole_scalar()
        written = "".join(self._held)
        known = _NUMBER.fullmatch(written) or any(word.startswith(written) for word in _WORDS)
        if not known or len(written) > _LONGEST_SCALAR:
            raise BrokenJsonError(f"{written[:20]!r} is no value")
        return end, None

    def _whole_scalar(self) -> Token:
        try:
            value = from_json("".join(self._held), allow_inf_nan=False)
        except ValueError:
            raise BrokenJsonError(f"{''.join(self._held)[:20]!r} is no value") from None
        self._held = []
        self._valued()
        return Token(Kind.VALUE, value)
