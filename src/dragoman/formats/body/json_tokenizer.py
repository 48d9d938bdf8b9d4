"""An incremental JSON tokenizer that takes linear time. It yields tokens; the caller interprets them.

Keys and strings are yielded whole, with one exception: the beginning of a string that is still arriving can be read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic_core import from_json

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH


class TokenKind(Enum):
    OPENED = auto()
    """An object or a list starts: ``value`` is ``{`` or ``[``."""
    CLOSED = auto()
    """An object or a list ends."""
    KEY = auto()
    VALUE = auto()
    """A string, number, boolean or null."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    value: Any


class BrokenJsonError(Exception):
    """The text is not the beginning of any JSON."""


class _State(Enum):
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
"""First characters of scalars that are not strings."""
_MAX_SCALAR = 5_000
_MAX_PEEKED_PIECES = 500
"""The maximum number of pieces that are joined for a peek. Each peek joins them all, so the number is bounded."""
_WORDS = ("true", "false", "null")
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*|(?:\.[0-9]+)?(?:[eE][-+]?[0-9]*)?)?)?")
"""A prefix of a number."""


class JsonTokenizer:
    """Feed it the text in pieces; it yields the tokens. Raises BrokenJsonError as soon as the text cannot be JSON."""

    def __init__(self) -> None:
        self._state = _State.VALUE
        self._closers: list[str] = []
        self._buffer: list[str] = []
        """The current string or scalar as written, without the opening quote."""
        self._is_key = False
        self._escape = ""
        """An incomplete escape."""

    @property
    def partial_text(self) -> str | None:
        """The beginning of the current string value. None if there is none, or if its last character is incomplete."""
        if self._state is not _State.STRING or self._is_key or self._escape or len(self._buffer) > _MAX_PEEKED_PIECES:
            return None
        try:
            return str(from_json(f'"{"".join(self._buffer)}"'.encode()))
        except ValueError:
            return None  # it may end in half of a surrogate pair

    @property
    def is_text(self) -> bool:
        """True inside a string value."""
        return self._state is _State.STRING and not self._is_key

    def feed(self, text: str) -> Iterator[Token]:
        position = 0
        while position < len(text):
            if self._state is _State.STRING:
                position, token = self._read_string(text, position)
            elif self._state is _State.SCALAR:
                position, token = self._read_scalar(text, position)
            else:
                space = _SPACE.match(text, position)
                position = space.end() if space else position
                if position == len(text):
                    return
                token = self._read_structure(text[position])
                position += text[position] not in _SCALARS_BEGIN
            if token is not None:
                yield token

    def end(self) -> Iterator[Token]:
        """Yield the last tokens at the end of the text."""
        if self._state is _State.SCALAR:
            yield self._whole_scalar()
        if self._state is not _State.DONE:
            raise BrokenJsonError("the JSON ends before it is complete")

    def _read_structure(self, character: str) -> Token | None:
        state = self._state
        if state in (_State.VALUE, _State.VALUE_OR_END):
            if character == "]" and state is _State.VALUE_OR_END:
                return self._close("]")
            return self._value(character)
        if state in (_State.KEY, _State.KEY_OR_END):
            if character == "}" and state is _State.KEY_OR_END:
                return self._close("}")
            if character != '"':
                raise BrokenJsonError("a key of an object must be a string")
            self._begin(_State.STRING, is_key=True)
        elif state is _State.COLON:
            if character != ":":
                raise BrokenJsonError("a colon must follow a key")
            self._state = _State.VALUE
        elif state is _State.COMMA_OR_END:
            if character != ",":
                return self._close(character)
            self._state = _State.KEY if self._closers[-1] == "}" else _State.VALUE
        else:
            raise BrokenJsonError("there is more text after the JSON")
        return None

    def _value(self, character: str) -> Token | None:
        if character in "{[":
            if len(self._closers) == MAX_DOCUMENT_DEPTH:
                raise BrokenJsonError(f"it is nested more than {MAX_DOCUMENT_DEPTH} levels deep")
            self._closers.append("}" if character == "{" else "]")
            self._state = _State.KEY_OR_END if character == "{" else _State.VALUE_OR_END
            return Token(TokenKind.OPENED, character)
        if character == '"':
            self._begin(_State.STRING)
        elif character in _SCALARS_BEGIN:
            self._begin(_State.SCALAR)
        else:
            raise BrokenJsonError(f"no value begins with {character!r}")
        return None

    def _begin(self, state: _State, *, is_key: bool = False) -> None:
        self._state, self._is_key, self._buffer, self._escape = state, is_key, [], ""

    def _close(self, character: str) -> Token:
        if not self._closers or character != self._closers.pop():
            raise BrokenJsonError("a comma, or the end of the object or list, must follow a value")
        self._end_value()
        return Token(TokenKind.CLOSED, character)

    def _end_value(self) -> None:
        self._state = _State.COMMA_OR_END if self._closers else _State.DONE

    def _read_string(self, text: str, position: int) -> tuple[int, Token | None]:
        if self._escape:
            character = text[position]
            if character not in (_ESCAPES if len(self._escape) == 1 else _HEX):
                raise BrokenJsonError("a string has an escape that JSON does not know")
            self._escape += character
            if len(self._escape) == (6 if self._escape[1] == "u" else 2):
                self._buffer.append(self._escape)
                self._escape = ""
            return position + 1, None
        plain = _PLAIN.match(text, position)
        if plain is not None and plain.end() > position:
            self._buffer.append(plain[0])
            position = plain.end()
        if position == len(text):
            return position, None
        if text[position] == '"':
            return position + 1, self._whole_string()
        if text[position] != "\\":
            raise BrokenJsonError("a string contains a control character")
        self._escape = "\\"
        return position + 1, None

    def _whole_string(self) -> Token:
        try:
            value = from_json(f'"{"".join(self._buffer)}"'.encode())
        except ValueError:
            raise BrokenJsonError("a string holds a lone surrogate") from None
        self._buffer = []
        if self._is_key:
            self._state = _State.COLON
            return Token(TokenKind.KEY, value)
        self._end_value()
        return Token(TokenKind.VALUE, value)

    def _read_scalar(self, text: str, position: int) -> tuple[int, Token | None]:
        found = _SCALAR.match(text, position)
        end = found.end() if found is not None else position
        self._buffer.append(text[position:end])
        if end < len(text):
            return end, self._whole_scalar()
        written = "".join(self._buffer)
        known = _NUMBER.fullmatch(written) or any(word.startswith(written) for word in _WORDS)
        if not known or len(written) > _MAX_SCALAR:
            raise BrokenJsonError(f"{written[:20]!r} is not a JSON value")
        return end, None

    def _whole_scalar(self) -> Token:
        try:
            value = from_json("".join(self._buffer), allow_inf_nan=False)
        except ValueError:
            raise BrokenJsonError(f"{''.join(self._buffer)[:20]!r} is not a JSON value") from None
        self._buffer = []
        self._end_value()
        return Token(TokenKind.VALUE, value)
