"""Reads a model's answer into a message body while it arrives, and reports violations as soon as they are certain.

Models write a body as an object with a list of ``parts``, or as that list alone. The same reader reads a complete
answer, so that early violations are the same as those at the end. Source: docs/reference/message-body.md#schemas.

An incremental JSON tokenizer that takes linear time. It yields tokens; the caller interprets them.

Keys and strings are yielded whole, with one exception: the beginning of a string that is still arriving can be read.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic_core import from_json

from dragoman.canonical.glob import Glob
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH
from dragoman.formats.body.message_body import (
    NAME_RULE,
    MessageBody,
    MessageBodyPart,
    MessageBodySchemaPart,
    accepts_part,
    can_start_name,
    describe_part,
    missing_parts,
    name_fault,
    normalize_type,
    type_fault,
)
from dragoman.formats.document import kind_of, validating
from dragoman.formats.errors import BodyViolation, FormatError, MessageBodyError


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


_KEYS = ("name", "contentType", "content", "contentUrl", "contentEncoding")
_CONTENTS = ("content", "contentUrl")


class AnswerReader:
    """Reads one answer. ``violations`` are those that are certain, whatever follows."""

    def __init__(self, allowed: Sequence[MessageBodySchemaPart]) -> None:
        self._allowed = allowed
        self._tokenizer = JsonTokenizer()
        self._stack: list[str] = []
        """The open values: ``root``, ``parts`` and ``part``, or ``other`` for a value in a wrong place."""
        self._key = ""
        """The key of the next value."""
        self._root = "$"
        self._has_parts = False
        self._fields: dict[str, Any] = {}
        self._faulty = False
        """True if the current part, or a value in its place, has already been reported."""
        self._index = -1
        self._names: dict[str, int] = {}
        self._parts: list[MessageBodyPart] = []
        self._begun = self._broken = False
        self.violations: list[BodyViolation] = []

    def feed(self, text: str) -> None:
        """Read the next piece."""
        if not self._begun:
            start = text.lstrip(" \t\n\r")
            self._begun = bool(start)
            if start and start[0] not in "{[":  # rejected at its first character
                self._broken = True
                self._add_violation(
                    "$", f"a message body must be an object with a list of parts: it cannot begin with {start[0]!r}"
                )
        if self._broken or not self._begun:
            return
        try:
            for token in self._tokenizer.feed(text):
                self._handle_token(token)
        except BrokenJsonError as error:
            self._fail(str(error))
        else:
            self._check_partial()

    def end(self, ended: str | None = None) -> MessageBody:
        """Return the body. Raises MessageBodyError with every violation; ``ended`` is added to them."""
        if not self._broken:
            try:
                for token in self._tokenizer.end():
                    self._handle_token(token)
            except BrokenJsonError as error:
                self._fail(str(error))
        if self.violations:
            raise MessageBodyError(self.violations, ended=ended)
        return MessageBody(tuple(self._parts))

    def _fail(self, reason: str) -> None:
        self._broken = True
        path = self._part_path if self._stack[-1:] == ["part"] else self._root
        self._add_violation(path, f"the answer is not valid JSON: {reason}")

    @property
    def _part_path(self) -> str:
        return f"{self._root}[{self._index}]"

    def _add_violation(self, path: str, reason: str) -> None:
        self.violations.append(BodyViolation(path, reason))

    def _add_part_violation(self, path: str, reason: str) -> None:
        """Report a violation of the current part, once."""
        if not self._faulty:
            self._add_violation(path, reason)
        self._faulty = True

    def _handle_token(self, token: Token) -> None:
        container = self._stack[-1] if self._stack else ""
        match token.kind:
            case TokenKind.OPENED:
                self._stack.append(self._open(container, token.value))
            case TokenKind.CLOSED:
                what = self._stack.pop()
                if what == "part":
                    self._finish_part()
                elif what == "parts":
                    self.violations += missing_parts(self._allowed, self._parts)
                elif what == "root" and not self._has_parts:
                    self._add_violation("$", "a message body must have a list of parts")
            case TokenKind.KEY if container in ("root", "part"):
                self._key = token.value
                self._check_key(container)
            case TokenKind.VALUE if container == "part":
                self._set_field(token.value)
            case TokenKind.VALUE if container != "other":
                self._report_misplaced(container, kind_of(token.value))

    def _open(self, container: str, bracket: str) -> str:
        if not container:
            self._has_parts = bracket == "["
            return "parts" if self._has_parts else "root"
        if container == "root" and self._key == "parts" and bracket == "[" and not self._has_parts:
            self._has_parts, self._root = True, "$.parts"
            return "parts"
        if container == "parts" and bracket == "{":
            self._index += 1
            self._fields, self._faulty = {}, False
            return "part"
        if container != "other":
            self._report_misplaced(container, "a list" if bracket == "[" else "an object")
        return "other"

    def _report_misplaced(self, container: str, kind: str) -> None:
        """Report a value of the wrong kind."""
        if container == "parts":
            self._index += 1
            self._add_violation(self._part_path, f"a part must be an object, not {kind}")
        elif container == "part" and self._key in _KEYS:
            self._add_part_violation(f"{self._part_path}.{self._key}", f"this must be a text, not {kind}")
        elif container == "root" and self._key == "parts" and not self._has_parts:
            self._add_violation("$.parts", f"the parts of a message body must be a list, not {kind}")
            self._has_parts = True

    def _check_key(self, container: str) -> None:
        if container == "root":
            if self._key != "parts":
                self._add_violation(f"$.{self._key[:_MAX_SHOWN]}", "a message body has no other field than its parts")
            elif self._has_parts:
                self._add_violation("$.parts", "the parts occur twice")
        elif self._key not in _KEYS:
            reason = f"unknown field of a part; the fields are {', '.join(_KEYS)}"
            self._add_part_violation(f"{self._part_path}.{self._key[:_MAX_SHOWN]}", reason)
        elif self._key in self._fields:
            self._add_part_violation(f"{self._part_path}.{self._key}", "the field occurs twice")

    def _set_field(self, value: Any) -> None:
        """Set a field of the current part."""
        key, at = self._key, f"{self._part_path}.{self._key}"
        if key not in _KEYS:
            return
        if value is not None and not isinstance(value, str):
            self._add_part_violation(at, f"this must be a text, not {kind_of(value)}")
        elif not self._faulty:
            self._fields[key] = value
            if key == "name" and value is not None:
                if (fault := name_fault(value)) is not None:
                    self._add_part_violation(at, fault)
                elif (first := self._names.setdefault(value, self._index)) != self._index:
                    self._add_part_violation(at, f"names must be unique: {self._root}[{first}] has the same")
            elif key == "contentType" and (fault := type_fault(value or "")) is not None:
                self._add_part_violation(at, fault)
            elif key == "contentEncoding" and value not in (None, "plain", "base64"):
                self._add_part_violation(at, "an encoding must be plain or base64")
        self._check_part()

    def _check_partial(self) -> None:
        """Check the beginning of a string that is still arriving."""
        if self._stack[-1:] != ["part"] or not self._tokenizer.is_text:
            return
        if self._key in _CONTENTS:
            self._check_part(self._key)
        elif self._key in ("name", "contentType") and (prefix := self._tokenizer.partial_text) is not None:
            if self._key == "name" and not can_start_name(prefix):
                self._add_part_violation(f"{self._part_path}.name", NAME_RULE)
            self._check_part(self._key, prefix)

    def _check_part(self, pending_key: str = "", prefix: str = "") -> None:
        """Check whether a part with these fields, and a ``pending_key`` that starts with ``prefix``, can be valid."""
        if self._faulty:
            return
        if all(key == pending_key or self._fields.get(key) is not None for key in _CONTENTS):
            self._add_part_violation(self._part_path, "a part must have either content or a contentUrl")
        elif not any(self._can_match(each.names, each.types, pending_key, prefix) for each in self._allowed):
            name = prefix + "…" if pending_key == "name" else self._fields.get("name")
            kind = prefix + "…" if pending_key == "contentType" else self._fields.get("contentType", "…")
            self._add_part_violation(self._part_path, f"the schema has no place for {describe_part(name, kind)}")

    def _can_match(self, names: Glob | None, types: Glob, pending_key: str, prefix: str) -> bool:
        if "contentType" in self._fields:
            fits = types.matches(normalize_type(self._fields["contentType"]))
        else:
            fits = types.matches_prefix(normalize_type(prefix)) if pending_key == "contentType" else True
        if not fits:
            return False
        if pending_key == "name":
            return names is not None and names.matches_prefix(prefix)
        if "name" not in self._fields:
            return True
        name = self._fields["name"]
        return name is None if names is None else name is not None and names.matches(name)

    def _finish_part(self) -> None:
        """Validate the complete part."""
        if self._faulty:
            return
        try:
            with validating(self._fields, self._part_path):
                part = MessageBodyPart.model_validate(self._fields)
        except FormatError as error:
            self._add_part_violation(error.path, error.reason)
            return
        if not accepts_part(self._allowed, part):
            reason = f"the schema has no place for {describe_part(part.name, part.content_type)}"
            self._add_part_violation(self._part_path, reason)
        self._parts.append(part)


_MAX_SHOWN = 100
