"""Validation of canonical values: rejects lone surrogates, NaN, infinity, and values that are too deep or too large.

Every JSON library treats these differently: some drop them, some write invalid JSON, some fail much later. So they are
rejected once, when a value enters, with the path of the offender. Source: docs/reference/canonical.md#limits.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, LiteralString

from pydantic import AfterValidator, BaseModel, Field, PlainSerializer
from pydantic_core import PydanticCustomError

MAX_DEPTH = 128
"""Levels of a JSON object in a field."""
MAX_DOCUMENT_DEPTH = 192
"""Levels of a whole message as JSON: its own, plus those of its fields. The parser stops at 200."""
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_INTEGER_BITS = 14_000
"""About 4,200 digits; the parser stops at 4,300."""

_NODE_BYTES = 8
_MAX_PLAIN = 64 * 1024
_MAX_SHOWN_PATH = 200

_Path = tuple[Any, str | int] | None
"""A linked list from the offender back to the root. It is formatted only if there is an error."""


def check_text(value: str) -> str:
    """Reject a lone surrogate or a text that is too long (counted in characters, which is at most the bytes)."""
    position = None if value.isascii() else _surrogate(value)
    if position is not None:
        raise PydanticCustomError(
            "surrogate",
            "a lone surrogate at character {position} cannot be encoded: decode the text again, "
            "for example with errors='replace'",
            {"position": position},
        )
    if len(value) > MAX_BODY_BYTES:
        raise PydanticCustomError("too_large", _TOO_LARGE, {"path": "the text", "limit": MAX_BODY_BYTES})
    return value


def is_plain(value: object) -> bool:
    """Whether a value is None, or a text that `check_text` need not look at: short, and ASCII."""
    return value is None or (type(value) is str and len(value) <= _MAX_PLAIN and value.isascii())


def copy_json(value: Any, max_depth: int = MAX_DEPTH) -> Any:
    """Return a copy of a JSON value that shares nothing with it, with tuples as lists.

    Raises PydanticCustomError (a ValueError), with the path, if the value is not safe JSON.
    """
    copier = _Copier(max_depth)
    return copier.copy_object(value, None, 1) if type(value) is dict else copier.copy(value, None, 1)


def json_size(value: Any) -> int:
    """Return the approximate size in bytes of a checked value as JSON; models count with all their fields."""
    total = 0
    stack = [value]
    while stack:
        node = stack.pop()
        total += _NODE_BYTES
        if isinstance(node, str):
            total += len(node)
        elif isinstance(node, dict):
            total += sum(map(len, node))
            stack.extend(node.values())
        elif isinstance(node, (list, tuple)):
            stack.extend(node)
        elif isinstance(node, BaseModel):
            stack.extend(node.__dict__.values())
            if node.__pydantic_extra__:
                stack.append(node.__pydantic_extra__)
    return total


@dataclass(slots=True, eq=False, repr=False)
class _Copier:
    """One walk through a value, which adds up its size on the way."""

    _max_depth: int
    _size: int = 0

    def copy(self, node: Any, path: _Path, depth: int) -> Any:
        kind = type(node)  # nearly every value is of exactly one of these types, so the slower checks are skipped
        if kind is dict:
            return self.copy_object(node, path, depth)
        if kind is str and node.isascii():
            copied: Any = node
            self._size += len(node)
        elif node is None or kind is bool or (kind is int and node.bit_length() <= MAX_INTEGER_BITS):
            copied = node
        elif kind is float:
            copied = _number(node, path)
        elif isinstance(node, str):
            self._size += len(node)
            copied = _check_surrogates(node, path)
        elif isinstance(node, dict):
            return self.copy_object(node, path, depth)
        elif kind is list or isinstance(node, (list, tuple)):
            if depth > self._max_depth:
                raise self._too_deep(path)
            copied = [self.copy(item, (path, index), depth + 1) for index, item in enumerate(node)]
        else:
            copied = _number(node, path)
        self._size += _NODE_BYTES
        if self._size > MAX_BODY_BYTES:
            raise _too_large(path)
        return copied

    def copy_object(self, node: dict[Any, Any], path: _Path, depth: int) -> dict[str, Any]:
        """Do what `copy` does, without a call for each value: nearly all values are of the types that are handled
        here."""
        if depth > self._max_depth:
            raise self._too_deep(path)
        copied: dict[str, Any] = {}
        size = self._size
        for key, item in node.items():
            if type(key) is not str or not key.isascii():
                if not isinstance(key, str):
                    problem: LiteralString = "{path} has a key that is a {kind}, not a string"
                    raise _fault("json_key", problem, path, kind=type(key).__name__)
                key = _check_surrogates(key, path)
            kind = type(item)
            if kind is str and item.isascii():
                size += len(key) + len(item) + _NODE_BYTES
            elif item is None or kind is bool or (kind is int and item.bit_length() <= MAX_INTEGER_BITS):
                size += len(key) + _NODE_BYTES
            else:
                self._size = size + len(key)
                copy = self.copy_object if kind is dict else self.copy
                item = copy(item, (path, key), depth + 1)
                size = self._size
            if size > MAX_BODY_BYTES:
                raise _too_large((path, key))
            copied[key] = item
        self._size = size + _NODE_BYTES
        if self._size > MAX_BODY_BYTES:
            raise _too_large(path)
        return copied

    def _too_deep(self, path: _Path) -> PydanticCustomError:
        return _fault("too_deep", "{path} is nested more than {limit} levels deep", path, limit=self._max_depth)


def _check_surrogates(value: str, path: _Path) -> str:
    """Return a text as a plain string; reject a lone surrogate."""
    position = _surrogate(value)
    if position is not None:
        raise _fault("surrogate", "{path} has a lone surrogate at character {position}", path, position=position)
    return str.__str__(value)


def _fault(kind: LiteralString, problem: LiteralString, path: _Path, /, **details: Any) -> PydanticCustomError:
    return PydanticCustomError(kind, problem, {"path": _format_path(path), **details})


def _too_large(path: _Path) -> PydanticCustomError:
    return _fault("too_large", _TOO_LARGE, path, limit=MAX_BODY_BYTES)


def _number(node: Any, path: _Path) -> int | float:
    if isinstance(node, int):
        if node.bit_length() > MAX_INTEGER_BITS:
            problem: LiteralString = "{path} is an integer of more than {limit} bits, which JSON parsers refuse"
            raise _fault("integer_too_long", problem, path, limit=MAX_INTEGER_BITS)
        return int(node)
    if isinstance(node, float):
        if not math.isfinite(node):
            value = str(float(node))
            raise _fault("not_finite", "{path} is {value}, which JSON cannot represent", path, value=value)
        return float(node)
    raise _fault("not_json", "{path} is a {kind}, not a JSON value", path, kind=type(node).__name__)


def _surrogate(value: str) -> int | None:
    """Return the index of the first lone surrogate, or None."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _format_path(path: _Path) -> str:
    """Format a path as ``$.key[0]``; the middle of a long path is left out."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    text = "$" + "".join(reversed(steps))
    half = _MAX_SHOWN_PATH // 2
    return text if len(text) <= _MAX_SHOWN_PATH else f"{text[:half]}…{text[-half:]}"


_TOO_LARGE = "{path} makes the value larger than {limit} bytes: store the data elsewhere and refer to it by URL"

Text = Annotated[str, AfterValidator(check_text)]
"""A string that every encoder can write."""

NameSet = Annotated[frozenset[Text], PlainSerializer(sorted, return_type=list[str], when_used="json")]
"""A set of words, sorted in JSON so that the same set gives the same bytes in any process."""

Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
"""A number that fits into databases and every JSON parser."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""An Integer that is not negative."""

Json = Annotated[Any, AfterValidator(copy_json)]
"""Any JSON value without NaN, infinity, lone surrogates or more than 128 levels; a copy of its own."""

JsonObject = Annotated[dict[str, Any], AfterValidator(copy_json)]
"""A JSON object of the same kind."""
